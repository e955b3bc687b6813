module github.com/mcp-dualstack/bridge/test/load

go 1.26.0
