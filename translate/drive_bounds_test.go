package translate_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/translate"
)

// TestDriveBounds: each bound of DriveOptions ends the call, and says that it was reached.
func TestDriveBounds(t *testing.T) {
	again := inputs(`{"1":`+roots+`}`, "")
	for _, c := range []struct {
		name    string
		o       translate.DriveOptions
		results []string
		want    string // the outcome
		bounds  string
		rounds  int // calls of the server
	}{
		{"rounds", translate.DriveOptions{MaxRounds: 2}, []string{again}, `-32603 {"bridge":{"reason":"too_many_rounds"}}`, "rounds", 3},
		{"as many rounds as allowed", translate.DriveOptions{MaxRounds: 2}, []string{again, again, `{"resultType":"complete","messages":[]}`}, `{"messages":[]}`, "", 3},
		{"rounds of a URL", translate.DriveOptions{MaxURLRounds: 1}, []string{inputs(`{"l":`+link+`}`, `"s"`)}, `-32603 {"bridge":{"reason":"too_many_rounds"}}`, "url_attempts", 3},
		{"questions", translate.DriveOptions{MaxQuestions: 1}, []string{inputs(`{"1":`+roots+`,"2":`+roots+`}`, "")}, "upstream_invalid", "questions", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bounds []string
				c.o.Bound = func(name string) { bounds = append(bounds, name) }
				s := newScript(t, results("prompts/get", c.results...))
				u := newUser(t, translate.Handler(s, &translate.Options{Drive: c.o}), l3, allCapabilities, agreeable)
				resp, err := u.ask("prompts/get", `{"name":"p"}`)
				equal(t, "outcome", outcome(resp, err), c.want)
				equal(t, "bounds", strings.Join(bounds, " "), c.bounds)
				equal(t, "calls", len(s.params("prompts/get")), c.rounds)
			})
		})
	}
}

// TestDriveAskTimeout: a question that nobody answers ends the call after the time that is set.
func TestDriveAskTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, results("prompts/get", inputs(`{"1":`+roots+`}`, "")))
		h := translate.Handler(s, &translate.Options{Drive: translate.DriveOptions{AskTimeout: 3 * time.Second}})
		u := newUser(t, h, l3, allCapabilities, func(ctx context.Context, _ exchange.Request) (exchange.Response, error) {
			<-ctx.Done()
			return exchange.Response{}, context.Cause(ctx)
		})
		start := time.Now()
		resp, err := u.ask("prompts/get", `{"name":"p"}`)
		equal(t, "outcome", outcome(resp, err), `-32603 {"bridge":{"reason":"client_timeout"}}`)
		equal(t, "time", time.Since(start), 3*time.Second)
	})
}

// TestTasksDoNotPassThroughAPool: they belong to a session, and there it is everybody's (translation.md 4, 10).
func TestTasksDoNotPassThroughAPool(t *testing.T) {
	for _, c := range []struct {
		name                           string
		pooled                         bool
		capabilities, params, list, te string
	}{
		{"dedicated", false, `{"tools":{},"tasks":{"list":{}},"x-cap":[1.50]}`, `{"name":"a","task":{"ttl":1}}`,
			`{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`, `{"tasks":[]}`},
		{"pooled", true, `{"tools":{},"x-cap":[1.50]}`, `{"name":"a"}`, `{"tools":[]}`, `-32601 {"bridge":{"reason":"unknown_method"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newLegacyScript(t, l3, func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
				switch req.Method {
				case "tasks/list":
					return exchange.Response{Result: []byte(`{"tasks":[]}`)}, nil
				case "tools/list":
					return exchange.Response{Result: []byte(`{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`)}, nil
				}
				return exchange.Response{Result: []byte(plain)}, nil
			})
			h := translate.Handler(s, &translate.Options{Pooled: c.pooled})
			u := newUser(t, h, l3, `{"tasks":{}}`, agreeable)
			u.must("tools/call", `{"name":"a","task":{"ttl":1}}`)
			equal(t, "params", s.params("tools/call")[0], c.params)
			equal(t, "capabilities", string(u.session.Server().Capabilities), c.capabilities)
			equal(t, "tools/list", u.must("tools/list", `{}`), c.list)
			resp, err := u.ask("tasks/list", `{}`)
			equal(t, "tasks/list", outcome(resp, err), c.te)
		})
	}
}
