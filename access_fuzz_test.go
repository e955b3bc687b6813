package bridge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// FuzzToolFilter: whatever a server lists, what is left has the tools that the rules leave and no others, as encoding/json reads it,
// and each as it was; what is not about tools stays.
func FuzzToolFilter(f *testing.F) {
	for _, s := range []string{
		`{"tools":[{"name":"read_a"},{"name":"delete"}]}`, `{"tools":[]}`, `{"tools":null,"x":1}`, `{}`, `{"tools":[{"name":"\u0072ead_b","x":[1.0]},7,{"name":3}],"nextCursor":"n"}`,
		`{"tools":[{"name":"delete","name":"read_a"}]}`, `{"tools":[{"name":"read_a"}],"tools":[{"name":"delete"}]}`,
	} {
		f.Add([]byte(s))
	}
	s := accessSession{ruled: true, about: toolRules{{Grant: "*", Allow: []string{"read_*"}, Deny: []string{"*_secret"}}}}
	f.Fuzz(func(t *testing.T, result []byte) {
		if _, bad := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":` + string(result) + `}`)); bad != nil || !jsonrpc.IsObject(result) {
			t.Skip()
		}
		before := slices.Clone(result)
		got := s.filter(result)
		if string(result) != string(before) {
			t.Fatal("the server's bytes have changed")
		}
		if !json.Valid(got) {
			t.Fatalf("%s becomes %s", result, got)
		}
		var read struct{ Tools json.RawMessage }
		_ = json.Unmarshal(got, &read) // the last list of several; not an object is none
		if last := jsonrpc.Get(got, "tools"); last != nil && string(read.Tools) != string(last) && !foldedTools(got) {
			t.Errorf("%s becomes %s, of which others read %s", result, got, read.Tools)
		}
		jsonrpc.Elements(jsonrpc.Get(got, "tools"), func(tool []byte) bool {
			name, _ := jsonrpc.String(jsonrpc.Get(tool, "name"))
			if !s.about.allows(name) {
				t.Errorf("%s leaves %s", result, tool)
			}
			return true
		})
	})
}

// foldedTools reports whether there is a member that encoding/json takes for tools.
func foldedTools(obj []byte) (found bool) {
	jsonrpc.Members(obj, func(name string, _ []byte) bool {
		found = found || name != "tools" && strings.EqualFold(name, "tools")
		return true
	})
	return found
}
