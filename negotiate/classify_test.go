package negotiate_test

import (
	"net/http"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	. "github.com/mcp-dualstack/bridge/negotiate"
)

// scan reads a message that the test knows to be acceptable.
func scan(t testing.TB, text string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(text))
	if err != nil {
		t.Fatalf("scan %s: %v", text, err)
	}
	return &m
}

// header returns a header of name, value pairs.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// refusal is what a test looks at of a Refusal; the zero value is none.
type refusal struct {
	status, code int
	data         string
}

func seen(r *Refusal) refusal {
	if r == nil {
		return refusal{}
	}
	return refusal{r.Status, r.Err.Code, string(r.Err.Data)}
}

func reason(word string) string { return `{"bridge":{"reason":"` + word + `"}}` }

const (
	claim2026 = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	claim2025 = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}`
)

func TestClassify(t *testing.T) {
	missing := refusal{400, -32602, reason("missing_claim")}
	tests := []struct {
		name    string
		header  http.Header
		message string
		want    Class
		refusal refusal
	}{
		{"response (row 4)", header("Mcp-Protocol-Version", "2026-07-28"), `{"jsonrpc":"2.0","id":1,"result":{}}`, ClassLegacy, refusal{}},
		{"error response (row 4)", nil, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, ClassLegacy, refusal{}},
		{"initialize (row 5)", nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, ClassInitialize, refusal{}},
		{"initialize without params", nil, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, ClassInitialize, refusal{}},
		{"initialize of 2026 without claim (R20)", nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}`, ClassInitialize, refusal{}},
		{"initialize, later header (R42)", header("Mcp-Protocol-Version", "2099-01-01"), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`, ClassInitialize, refusal{}},
		{"initialize, modern header", header("Mcp-Protocol-Version", "2026-07-28"), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`, ClassInitialize, refusal{}},
		{"initialize with modern claim", nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` + claim2026 + `}}`, ClassModern, refusal{}},
		{"initialize with unreadable claim", nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}}`, ClassModern, refusal{}},
		{"initialize with legacy claim", nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` + claim2025 + `}}`, ClassInitialize, refusal{}},
		{"initialize as notification", nil, `{"jsonrpc":"2.0","method":"initialize","params":{}}`, ClassLegacy, refusal{}},
		{"claim, no header (row 6)", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + claim2026 + `}}`, ClassModern, refusal{}},
		{"null claim", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":null}}}`, ClassModern, refusal{}},
		{"legacy claim", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + claim2025 + `}}`, ClassModern, refusal{}},
		{"claim written with escapes", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol\/\u0070rotocolVersion":"2026-07-28"}}}`, ClassModern, refusal{}},
		{"modern header, no claim (row 7)", header("Mcp-Protocol-Version", "2026-07-28"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, ClassRefused, missing},
		{"later header, no claim", header("Mcp-Protocol-Version", "2099-01-01"), `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":1}}}`, ClassRefused, missing},
		{"one of two headers modern", header("Mcp-Protocol-Version", "2025-11-25", "Mcp-Protocol-Version", "2026-07-28"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, ClassRefused, missing},
		{"claim outside _meta", header("Mcp-Protocol-Version", "2026-07-28"), `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, ClassRefused, missing},
		{"notification, modern header (row 8)", header("Mcp-Protocol-Version", "2026-07-28"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, ClassModernNotification, refusal{}},
		{"notification, claim", nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{` + claim2026 + `}}`, ClassModernNotification, refusal{}},
		{"notification, legacy header", header("Mcp-Protocol-Version", "2025-11-25"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, ClassLegacy, refusal{}},
		{"request, legacy header (row 9)", header("Mcp-Protocol-Version", "2025-11-25"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, ClassLegacy, refusal{}},
		{"request, no header (R23)", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, ClassLegacy, refusal{}},
		{"request, garbage header", header("Mcp-Protocol-Version", "zzz"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, ClassLegacy, refusal{}},
		{"request, date between the eras", header("Mcp-Protocol-Version", "2026-07-27"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, ClassLegacy, refusal{}},
	}
	for _, tt := range tests {
		got, r := Classify(tt.header, scan(t, tt.message))
		if got != tt.want || seen(r) != tt.refusal {
			t.Errorf("%s: got %v %v, want %v %v", tt.name, got, seen(r), tt.want, tt.refusal)
		}
	}
}

func TestMissingClaimNamesTheKey(t *testing.T) {
	_, r := Classify(header("Mcp-Protocol-Version", "2026-07-28"), scan(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	want := `Invalid params: the MCP-Protocol-Version header says '2026-07-28', but params._meta has no "io.modelcontextprotocol/protocolVersion"; every request of that revision carries it`
	if r.Err.Message != want {
		t.Errorf("got %s, want %s", r.Err.Message, want)
	}
}

func TestLegacyClaim(t *testing.T) {
	tests := []struct {
		name, claim string
		want        bool
	}{
		{"2026-07-28", `"2026-07-28"`, true},
		{"a date of 2026", `"2026-01-01"`, true},
		{"later", `"2099-01-01"`, true},
		{"draft", `"DRAFT-2026-v1"`, true},
		{"the year", `"2026"`, true},
		{"2025-11-25", `"2025-11-25"`, false},
		{"2025-12-31", `"2025-12-31"`, false},
		{"empty", `""`, false},
		{"no string", `2026`, false},
		{"null", `null`, false},
	}
	for _, tt := range tests {
		text := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":` + tt.claim + `}}}`
		if got := LegacyClaim(scan(t, text)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	if LegacyClaim(scan(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)) {
		t.Error("a message without _meta has a claim")
	}
	if !LegacyClaim(scan(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{`+claim2026+`}}`)) {
		t.Error("a notification's claim was not seen")
	}
}

func TestRefusalDescribesItself(t *testing.T) {
	r := &Refusal{Status: 400, Err: Refused(-32600, ReasonBatch, "no batch in %v", Rev20251125)}
	if got, want := r.Error(), "400: no batch in 2025-11-25 (code -32600)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUnsupportedVersion(t *testing.T) {
	e := UnsupportedVersion(SetOf(Rev20250618, Rev20260728), []byte(`"19\u0030\u0030-\n01-01"`))
	if want := `{"supported":["2026-07-28","2025-06-18"],"requested":"19\u0030\u0030-\n01-01"}`; string(e.Data) != want {
		t.Errorf("data: got %s, want %s", e.Data, want)
	}
	if want := "Unsupported protocol version '1900-01-01': use one of data.supported"; e.Code != -32022 || e.Message != want {
		t.Errorf("got %d %s, want -32022 %s", e.Code, e.Message, want)
	}
}

func TestCheckSessionVersion(t *testing.T) {
	refused := refusal{400, -32600, reason("unsupported_version_header")}
	tests := []struct {
		name       string
		header     http.Header
		negotiated Revision
		served     Set
		mismatch   bool
		refusal    refusal
	}{
		{"absent", nil, Rev20251125, All, false, refusal{}},
		{"equal", header("Mcp-Protocol-Version", "2025-11-25"), Rev20251125, All, false, refusal{}},
		{"equal, though retired since", header("Mcp-Protocol-Version", "2025-03-26"), Rev20250326, SetOf(Rev20251125), false, refusal{}},
		{"another served one", header("Mcp-Protocol-Version", "2025-06-18"), Rev20251125, All, true, refusal{}},
		{"newer served one", header("Mcp-Protocol-Version", "2025-11-25"), Rev20241105, All, true, refusal{}},
		{"one not served", header("Mcp-Protocol-Version", "2025-03-26"), Rev20251125, All &^ SetOf(Rev20250326), false, refused},
		{"modern", header("Mcp-Protocol-Version", "2026-07-28"), Rev20251125, All, false, refused},
		{"garbage", header("Mcp-Protocol-Version", "garbage"), Rev20251125, All, false, refused},
		{"empty", header("Mcp-Protocol-Version", ""), Rev20251125, All, false, refused},
		{"empty without a revision", header("Mcp-Protocol-Version", ""), None, All, false, refused},
		{"twice", header("Mcp-Protocol-Version", "2025-11-25", "Mcp-Protocol-Version", "2025-11-25"), Rev20251125, All, false, refused},
		{"list", header("Mcp-Protocol-Version", "2025-11-25, 2025-06-18"), Rev20251125, All, false, refused},
	}
	for _, tt := range tests {
		mismatch, r := CheckSessionVersion(tt.header, tt.negotiated, tt.served)
		if mismatch != tt.mismatch || seen(r) != tt.refusal {
			t.Errorf("%s: got %v %v, want %v %v", tt.name, mismatch, seen(r), tt.mismatch, tt.refusal)
		}
	}
}
