//go:build nolegacy

package bridge_test

import (
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
)

func legacyCalls(testing.TB, *bridge.Bridge) map[string]func(testing.TB) {
	return map[string]func(testing.TB){}
}
