# Shared by interop/ci and conformance/ci: where things are built, free ports, and servers that are
# waited for and ended by their process id. Source it after set -euo pipefail.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${MCP_BRIDGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mcp-bridge}
bin=$cache/bin
tmp=$(mktemp -d)
servers=()
mkdir -p "$bin"

# Ends what start_server started, newest first, and removes the temporary folder.
end_all() {
	local i pid
	for ((i = ${#servers[@]} - 1; i >= 0; i--)); do
		pid=${servers[i]}
		kill -TERM "$pid" 2>/dev/null || continue
		for _ in {1..100}; do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	servers=()
}
trap 'end_all; rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Prints a port of 127.0.0.1 that nobody listens on.
free_port() {
	node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })'
}

# start_server NAME PORT COMMAND...: runs the command in the background with its output in
# $tmp/NAME.log, and returns when it listens. Prints the log and fails if it ends, or after 30 s.
start_server() {
	local name=$1 port=$2 pid
	shift 2
	"$@" >"$tmp/$name.log" 2>&1 </dev/null &
	pid=$!
	servers+=("$pid")
	for _ in {1..300}; do
		if ! kill -0 "$pid" 2>/dev/null; then
			echo "$name ended before it listened:" >&2
			cat "$tmp/$name.log" >&2
			return 1
		fi
		if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			return 0
		fi
		sleep 0.1
	done
	echo "$name does not listen on port $port after 30 s:" >&2
	cat "$tmp/$name.log" >&2
	return 1
}
