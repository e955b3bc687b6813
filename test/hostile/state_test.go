package hostile

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// asking is a call of the tool ask by a client of 2026-07-28 that can be asked; more are members of its params.
func asking(arguments, more string) string {
	params := harness.Modern(`"name":"ask","arguments":` + arguments + more)
	return harness.Request("1", "tools/call", strings.Replace(params, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{"form":{}}}`, 1))
}

// A round is what a call that asks is answered with.
type round struct {
	Error  *harness.Error
	Result struct {
		ResultType    string `json:"resultType"`
		RequestState  string `json:"requestState"`
		InputRequests map[string]json.RawMessage
		Content       []struct{ Text string }
	}
}

// ask posts a call that asks and returns the answer.
func (b *bed) ask(t *testing.T, body string, header ...string) (round, string) {
	t.Helper()
	a := b.do(t, "POST", "/mcp", body, append(modernHeader("ask"), header...)...)
	text := a.body
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		m, _, err := untilResponse(harness.NewEventReader(strings.NewReader(a.body)))
		if err != nil {
			t.Fatalf("got %d %s: %v", a.status, a.body, err)
		}
		text = fmt.Sprintf(`{"result":%s}`, m.Result)
		if m.Error != nil {
			return round{Error: m.Error}, a.body
		}
	}
	var r round
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("got %d %s: %v", a.status, a.body, err)
	}
	return r, a.body
}

// The state of a suspended call is of use once, for the call and the caller it was made for, letter for letter; every other use has its reason
// and does not touch the call (translation.md 7.2; every bit of a token: TestAlteredTokens of translate).
func TestForgedState(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("alice "+sum("alice")+"\nmallory "+sum("mallory")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := start(t, "--auth-token-file", tokens)
	alice, mallory := []string{"Authorization", "Bearer alice"}, []string{"Authorization", "Bearer mallory"}
	first, text := b.ask(t, asking(`{"n":1}`, ""), alice...)
	state := first.Result.RequestState
	if first.Result.ResultType != "input_required" || state == "" || len(first.Result.InputRequests) != 1 {
		t.Fatalf("got %s", text)
	}
	var key string
	for key = range first.Result.InputRequests {
	}
	answered := func(state string) string {
		return `,"requestState":` + quoted(state) + `,"inputResponses":{` + quoted(key) + `:{"action":"accept","content":{"a":"mine"}}}`
	}
	raw, err := base64.RawURLEncoding.DecodeString(state[strings.IndexByte(state, '.')+1:])
	if err != nil {
		t.Fatalf("state %q: %v", state, err)
	}
	flipped := func(i int) string {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 1
		return state[:strings.IndexByte(state, '.')+1] + base64.RawURLEncoding.EncodeToString(changed)
	}
	other, _ := b.ask(t, asking(`{"n":2}`, ""), mallory...)
	for _, tt := range []struct {
		name, body string
		header     []string
		reason     string
	}{
		{"another principal", asking(`{"n":1}`, answered(state)), mallory, "state_invalid"},
		{"first bit", asking(`{"n":1}`, answered(flipped(0))), alice, "state_invalid"},
		{"bit in the middle", asking(`{"n":1}`, answered(flipped(len(raw)/2))), alice, "state_invalid"},
		{"last bit", asking(`{"n":1}`, answered(flipped(len(raw)-1))), alice, "state_invalid"},
		{"cut", asking(`{"n":1}`, answered(state[:len(state)-4])), alice, "state_invalid"},
		{"longer", asking(`{"n":1}`, answered(state+"AAAA")), alice, "state_invalid"},
		{"twice", asking(`{"n":1}`, answered(state+state)), alice, "state_invalid"},
		{"blank before it", asking(`{"n":1}`, answered(" "+state)), alice, "state_invalid"},
		{"line end after it", asking(`{"n":1}`, answered(state+"\n")), alice, "state_invalid"},
		{"padded", asking(`{"n":1}`, answered(state+"=")), alice, "state_invalid"},
		{"of mallory's call", asking(`{"n":1}`, answered(other.Result.RequestState)), alice, "state_invalid"},
		{"of mallory's call for its arguments", asking(`{"n":2}`, answered(other.Result.RequestState)), alice, "state_invalid"},
		{"other arguments", asking(`{"n":2}`, answered(state)), alice, "state_invalid"},
		{"other spelling of a number", asking(`{"n":1.0}`, answered(state)), alice, "state_invalid"},
		{"the id of a session", asking(`{"n":1}`, answered("AAAAAAAAAAAAAAAAAAAAAAAAAA")), alice, "state_invalid"},
		{"huge", asking(`{"n":1}`, answered("b1."+strings.Repeat("A", 1<<20))), alice, "state_invalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, text := b.ask(t, tt.body, tt.header...)
			if r.Error == nil || r.Error.Code != -32602 || !strings.Contains(string(r.Error.Data), `"reason":"`+tt.reason+`"`) || strings.Contains(text, "mine") {
				t.Errorf("got %s, want -32602 for %s", text, tt.reason)
			}
		})
	}
	t.Run("used by many at once", func(t *testing.T) { b.redeem(t, asking(`{"n":1}`, answered(state)), alice) })
	if r, text := b.ask(t, asking(`{"n":1}`, answered(state)), alice...); r.Error == nil || !strings.Contains(string(r.Error.Data), `"reason":"state_used"`) {
		t.Errorf("replayed: got %s, want state_used", text)
	}
	if n := strings.Count(heard(t, b.record), `"content":{"a":"mine"}`); n != 1 {
		t.Errorf("the server was answered %d times, want once", n)
	}
}

// redeem sends the same answer many times at once; one of them is served.
func (b *bed) redeem(t *testing.T, body string, header []string) {
	served, used := make(chan string, 16), make(chan string, 16)
	var sending sync.WaitGroup
	for range 16 {
		sending.Go(func() {
			a, err := b.try(t.Context(), "POST", "/mcp", body, append(modernHeader("ask"), header...)...)
			switch {
			case err != nil || a.status != http.StatusOK && a.status != http.StatusBadRequest:
				t.Errorf("got %d %s %v", a.status, a.body, err)
			case strings.Contains(a.body, "state_used"):
				used <- a.body
			default:
				served <- a.body
			}
		})
	}
	sending.Wait()
	if len(served) != 1 || len(used) != 15 {
		t.Fatalf("%d served and %d refused, want 1 and 15", len(served), len(used))
	}
	if text := <-served; !strings.Contains(text, "mine") {
		t.Errorf("got %s, want the answer", text)
	}
}

// sum is the hash of a token as a token file has it.
func sum(token string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token))) }
