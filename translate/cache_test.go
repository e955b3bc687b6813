package translate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/translate"
)

// hints returns ttlMs and cacheScope of a result.
func hints(result string) string {
	r := []byte(result)
	return string(jsonrpc.Get(r, "ttlMs")) + " " + string(jsonrpc.Get(r, "cacheScope"))
}

// TestCacheHints: translation.md 5, T8. A server of the handshake era says nothing, or something in advance of its revision.
func TestCacheHints(t *testing.T) {
	hour := map[string]translate.Cache{
		"tools/list": {TTL: time.Hour, Public: true}, "resources/read": {TTL: 1500 * time.Millisecond}, "server/discover": {TTL: time.Minute, Public: true},
	}
	for _, c := range []struct {
		name                   string
		o                      translate.Options
		method, params, result string // of the server
		want                   string
	}{
		{"default", translate.Options{}, "tools/list", `{}`, `{"tools":[]}`, `0 "private"`},
		{"set", translate.Options{Cache: hour}, "tools/list", `{}`, `{"tools":[]}`, `3600000 "public"`},
		{"set for less than a second", translate.Options{Cache: hour}, "resources/read", `{"uri":"a:b"}`, `{"contents":[]}`, `1500 "private"`},
		{"set for another method", translate.Options{Cache: hour}, "prompts/list", `{}`, `{"prompts":[]}`, `0 "private"`},
		{"set for a method without", translate.Options{Cache: hour}, "prompts/get", `{"name":"p"}`, `{"messages":[]}`, ` `},
		{"discover", translate.Options{Cache: hour}, "server/discover", `{}`, ``, `60000 "public"`},
		{"the server's own", translate.Options{Cache: hour}, "tools/list", `{}`, `{"tools":[],"ttlMs":7,"cacheScope":"private"}`, `7 "private"`},
		{"nonsense", translate.Options{Cache: hour}, "tools/list", `{}`, `{"tools":[],"ttlMs":-1,"cacheScope":"all"}`, `0 "private"`},
		{"a fraction", translate.Options{Cache: hour}, "tools/list", `{}`, `{"tools":[],"ttlMs":1.5}`, `0 "public"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newLegacy(t, results(c.method, c.result))
			equal(t, "hints", hints(newDesk(t, legacyHandler(t, up, &c.o)).show(c.method, c.params)), c.want)
		})
	}
}

// TestCacheHintsOfAModernServer: they pass, whatever is set.
func TestCacheHintsOfAModernServer(t *testing.T) {
	const list = `{"resultType":"complete","tools":[],"ttlMs":9,"cacheScope":"public"}`
	set := map[string]translate.Cache{"tools/list": {TTL: time.Hour}}
	h := translate.Handler(newScript(t, results("tools/list", list)), &translate.Options{Cache: set})
	equal(t, "hints", hints(newDesk(t, h).show("tools/list", `{}`)), `9 "public"`)
	equal(t, "discover", hints(string(open(t, h, m).Server().Discover)), `5 "public"`)
}

// TestOneScopeForAList: the scope of page 1 is kept for all pages (translation.md 5, T8), for each caller and list by itself.
func TestOneScopeForAList(t *testing.T) {
	pages := func(scopes ...string) []string {
		var out []string
		for i, scope := range scopes {
			out = append(out, `{"resultType":"complete","tools":[],"ttlMs":1,"cacheScope":"`+scope+`","nextCursor":"`+strings.Repeat("c", i+1)+`"}`)
		}
		return out
	}
	for _, c := range []struct {
		name   string
		server func(texts ...string) *script
	}{
		{"modern", func(texts ...string) *script { return newScript(t, results("tools/list", texts...)) }},
		{"handshake era", func(texts ...string) *script { return newLegacy(t, results("tools/list", texts...)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := legacyHandler(t, c.server(pages("public", "private", "private", "public")...), nil)
			d := newDesk(t, h)
			equal(t, "page 1", hints(d.show("tools/list", `{}`)), `1 "public"`)
			equal(t, "page 2", hints(d.show("tools/list", `{"cursor":"c"}`)), `1 "public"`)
			d.principal = "somebody else"
			equal(t, "a cursor of another's", hints(d.show("tools/list", `{"cursor":"cc"}`)), `1 "private"`)
			d.principal = ""
			equal(t, "page 3", hints(d.show("tools/list", `{"cursor":"cc"}`)), `1 "public"`)
		})
	}
	t.Run("bound", func(t *testing.T) {
		h := legacyHandler(t, newScript(t, results("tools/list", pages("public", "public", "private")...)), &translate.Options{MaxLists: 1})
		d := newDesk(t, h)
		d.show("tools/list", `{}`)
		d.show("tools/list", `{}`) // its further page takes the place of the first one's
		equal(t, "a page that is forgotten", hints(d.show("tools/list", `{"cursor":"c"}`)), `1 "private"`)
	})
}

func TestOptionsAreChecked(t *testing.T) {
	bad := &translate.Options{
		MaxSchemas: -1, Roots: []byte(`{}`), Drive: translate.DriveOptions{MaxRounds: -1, AskTimeout: -1},
		Cache:   map[string]translate.Cache{"tools/call": {}, "tools/list": {TTL: time.Microsecond}},
		Suspend: translate.SuspendOptions{MaxTotal: -1, Secrets: [][]byte{[]byte("short")}},
	}
	err := bad.Check()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"MaxSchemas", "roots are no", "Drive.MaxRounds", "Drive.AskTimeout", `"tools/call"`, "whole milliseconds", "MaxTotal"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
	var none *translate.Options
	if err := none.Check(); err != nil {
		t.Errorf("no options: got %v", err)
	}
}
