package bridge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
)

// setStage changes the state document to a stage, and by lines of text:
//
//	sunset 720h           the date, so much later than now
//	brownout calls 0s 1h  a window from and until, so much later than now
//	exempt ID             an exemption
//	tombstone on          gone stays on the tombstone
func setStage(t testing.TB, k *retire.Keeper, stage retire.Stage, text string) {
	t.Helper()
	state := *k.State()
	state.Stage, state.Brownouts, state.Exemptions = stage, nil, nil
	later := func(after string) time.Time {
		d, err := time.ParseDuration(after)
		if err != nil {
			t.Fatal(err)
		}
		return time.Now().Add(d)
	}
	for line := range strings.Lines(text) {
		switch words := strings.Fields(line); {
		case len(words) == 0:
		case words[0] == "sunset":
			state.Sunset = later(words[1])
		case words[0] == "brownout":
			state.Brownouts = append(state.Brownouts, retire.Window{
				ID: "w" + words[1], Mode: retire.Mode(words[1]), From: later(words[2]), Until: later(words[3]),
			})
		case words[0] == "exempt":
			state.Exemptions = append(state.Exemptions, retire.Exemption{ID: words[1], Owner: "somebody"})
		case words[0] == "tombstone":
			state.Tombstone = words[1] == "on"
		default:
			t.Fatalf("unknown line %q of a stage", line)
		}
	}
	_, err := k.Set(t.Context(), retire.Change{
		Version: k.State().Version, State: state, Actor: "test", Origin: "api", Reason: "a test", Force: true,
	})
	if err != nil {
		t.Fatal(err)
	}
}
