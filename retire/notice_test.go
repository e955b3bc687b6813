package retire_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/retire"
)

var (
	links = retire.Links{
		Successor: "https://mcp.example.com/mcp",
		Docs:      "https://docs.example.com/mcp?a=1&b=2",
		Policy:    "https://example.com/sunset",
	}
	sunset     = time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC)
	deprecated = time.Date(2026, 11, 2, 9, 30, 0, 0, time.FixedZone("", 3600))
)

func TestHeader(t *testing.T) {
	full := http.Header{
		"Deprecation": {"@1793608200"},
		"Sunset":      {"Fri, 15 Jan 2027 00:00:00 GMT"},
		"Link": {`<https://mcp.example.com/mcp>; rel="successor-version", <https://docs.example.com/mcp?a=1&b=2>; rel="deprecation"; type="text/html", ` +
			`<https://example.com/sunset>; rel="sunset"; type="text/html"`},
		"Access-Control-Expose-Headers": {"Deprecation, Sunset, Link"},
	}
	tests := []struct {
		name  string
		state retire.State
		links retire.Links
		want  http.Header
	}{
		{"open", retire.State{Stage: retire.Open, Sunset: sunset, Deprecation: deprecated}, links, http.Header{}},
		{"announce", retire.State{Stage: retire.Announce, Sunset: sunset, Deprecation: deprecated}, links, full},
		{"gone", retire.State{Stage: retire.Gone, Sunset: sunset, Deprecation: deprecated}, links, full},
		{"since the stage", retire.State{Stage: retire.Warn, Since: deprecated}, retire.Links{}, http.Header{
			"Deprecation": {"@1793608200"}, "Access-Control-Expose-Headers": {"Deprecation"},
		}},
		{"no dates", retire.State{Stage: retire.Gone}, retire.Links{Successor: "http://127.0.0.1/mcp"}, http.Header{
			"Link": {`<http://127.0.0.1/mcp>; rel="successor-version"`}, "Access-Control-Expose-Headers": {"Link"},
		}},
		{"a URL that would end the link", retire.State{Stage: retire.Gone}, retire.Links{Successor: "http://a/>; rel=\"x\"", Docs: "http://b/\r\nX: y"}, http.Header{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := http.Header{}
			tt.state.Header(got, tt.links)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// What other parts have said in the same fields stays.
func TestHeaderAdds(t *testing.T) {
	h := http.Header{"Link": {"</a>; rel=b"}, "Access-Control-Expose-Headers": {"Mcp-Session-Id"}}
	s := retire.State{Stage: retire.Warn, Since: noon}
	s.Header(h, retire.Links{Successor: "http://127.0.0.1/mcp"})
	want := http.Header{
		"Deprecation":                   {"@1796126400"},
		"Link":                          {"</a>; rel=b", `<http://127.0.0.1/mcp>; rel="successor-version"`},
		"Access-Control-Expose-Headers": {"Mcp-Session-Id", "Deprecation, Link"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestSentence(t *testing.T) {
	const transport = "The HTTP+SSE transport (MCP 2024-11-05) "
	long := "https://mcp.example.com/" + strings.Repeat("a", 100)
	longer := "https://mcp.example.com/" + strings.Repeat("a", 200) + "/mcp"
	refused := retire.Decision{Refuse: true, Code: 410}
	brownout := retire.Decision{Refuse: true, Code: 503, RetryAt: later}
	tests := []struct {
		name  string
		state retire.State
		d     retire.Decision
		links retire.Links
		want  string
	}{
		{"gone", retire.State{Stage: retire.Gone}, refused, retire.Links{Successor: links.Successor}, transport + "is no longer served here; connect with Streamable HTTP to https://mcp.example.com/mcp instead."},
		{"with the guide", retire.State{Stage: retire.Closed}, refused, links, transport + "is no longer served here; connect with Streamable HTTP to https://mcp.example.com/mcp instead, see https://docs.example.com/mcp?a=1&b=2."},
		{"window", retire.State{Stage: retire.Brownout}, brownout, links, transport + "is switched off here for a test until 2026-12-01T13:00:00Z; connect with Streamable HTTP to https://mcp.example.com/mcp instead, see https://docs.example.com/mcp?a=1&b=2."},
		{"warned", retire.State{Stage: retire.Warn, Sunset: sunset}, retire.Decision{}, links, transport + "ends here on 2027-01-15; connect with Streamable HTTP to https://mcp.example.com/mcp instead, see https://docs.example.com/mcp?a=1&b=2."},
		{"warned without a date", retire.State{Stage: retire.Warn}, retire.Decision{WouldRefuse: true}, retire.Links{Successor: links.Successor}, transport + "is deprecated here and will end; connect with Streamable HTTP to https://mcp.example.com/mcp instead."},
		{"no room for the guide", retire.State{Stage: retire.Closed}, refused, retire.Links{Successor: long, Docs: long}, transport + "is no longer served here; connect with Streamable HTTP to " + long + " instead."},
		{"no room for the URL", retire.State{Stage: retire.Closed}, refused, retire.Links{Successor: longer[:len(longer)-130] + "?q=" + strings.Repeat("b", 150)}, transport + "is no longer served here; connect with Streamable HTTP to the path /" + strings.Repeat("a", 74) + " instead."},
		{"no room for the path", retire.State{Stage: retire.Closed}, refused, retire.Links{Successor: longer}, transport + "is no longer served here; connect with Streamable HTTP to the URL in the Link header instead."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.state.Sentence(tt.d, tt.links)
			if got != tt.want || len(got) > retire.MaxSentence {
				t.Errorf("got %d bytes %q, want %q", len(got), got, tt.want)
			}
		})
	}
}

func TestData(t *testing.T) {
	s := retire.State{Stage: retire.Brownout, Sunset: sunset}
	d := retire.Decision{RetryAt: later}
	want := `{"stage":"brownout","sunset":"2027-01-15T00:00:00Z","successor":"https://mcp.example.com/mcp","docs":"https://docs.example.com/mcp?a=1&b=2","retryAt":"2026-12-01T13:00:00Z"}`
	if got := string(s.Data(d, links)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s = retire.State{Stage: retire.Gone}
	got := s.Data(retire.Decision{}, retire.Links{Successor: "/\u2028<\""})
	if want := `{"stage":"gone","successor":"/\u2028<\""}`; string(got) != want || !json.Valid(got) {
		t.Errorf("got %s, want %s", got, want)
	}
}
