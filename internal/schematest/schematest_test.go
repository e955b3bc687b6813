package schematest_test

import (
	"os"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/schematest"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// TestCheck shows that each revision's schema can be used and tells right from wrong.
func TestCheck(t *testing.T) {
	if os.Getenv(schematest.Variable) == "" {
		t.Skip(schematest.Variable + " is not set")
	}
	s := schematest.Load(t)
	l0, l1, l2, l3, m := negotiate.Rev20241105, negotiate.Rev20250326, negotiate.Rev20250618, negotiate.Rev20251125, negotiate.Rev20260728
	const audio = `{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}]}`
	for _, tc := range []struct {
		revision negotiate.Revision
		name     string
		raw      string
		ok       bool
	}{
		{l0, "CallToolResult", `{"content":[{"type":"text","text":"a"}]}`, true},
		{l0, "CallToolResult", audio, false},
		{l1, "CallToolResult", audio, true},
		{l1, "CallToolResult", `{"content":null}`, false},
		{l2, "ListToolsResult", `{"tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}]}`, false},
		{l2, "ElicitRequest", `{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}`, true},
		{l3, "CallToolResult", `{"content":[],"structuredContent":[]}`, false},
		{m, "CallToolResult", `{"content":[],"structuredContent":[],"resultType":"complete"}`, true},
		{m, "CallToolResult", `{"content":[]}`, false},
	} {
		if err := s.Check(tc.revision, tc.name, []byte(tc.raw)); (err == nil) != tc.ok {
			t.Errorf("%v %s %s: got %v, want ok %v", tc.revision, tc.name, tc.raw, err, tc.ok)
		}
	}
}
