package negotiate_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/mcp-dualstack/bridge/negotiate"
)

var revisions = []Revision{Rev20241105, Rev20250326, Rev20250618, Rev20251125, Rev20260728}

func TestParse(t *testing.T) {
	for _, r := range revisions {
		if got, ok := Parse(r.String()); got != r || !ok {
			t.Errorf("Parse(%q): got %v %v, want the revision itself", r, got, ok)
		}
	}
	for _, s := range []string{"", "2024-10-07", "2026-07-29", " 2025-11-25", "2025-11-25 ", "DRAFT-2026-v1", "zzz"} {
		if got, ok := Parse(s); got != None || ok {
			t.Errorf("Parse(%q): got %v %v, want None", s, got, ok)
		}
	}
}

func TestNoRevision(t *testing.T) {
	if got := None.String(); got != "" {
		t.Errorf("None: got %q, want nothing", got)
	}
	if got := Revision(200).String(); got != "" {
		t.Errorf("revision 200: got %q, want nothing", got)
	}
	if None.Modern() || None.Has(Handshake) || All.Has(None) || SetOf(None) != 0 {
		t.Error("None has an era, a feature or a set")
	}
	if Rev20260728.Has(ListenSubscriptions+1) || Rev20260728.Has(200) {
		t.Error("a feature that does not exist is there")
	}
}

func TestSets(t *testing.T) {
	tests := []struct {
		set    Set
		json   string
		newest Revision
	}{
		{0, `[]`, None},
		{All, `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`, Rev20260728},
		{Legacy, `["2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`, Rev20251125},
		{Modern, `["2026-07-28"]`, Rev20260728},
		{SetOf(Rev20250618, Rev20241105), `["2025-06-18","2024-11-05"]`, Rev20250618},
	}
	for _, tt := range tests {
		if got := string(tt.set.JSON()); got != tt.json {
			t.Errorf("JSON: got %s, want %s", got, tt.json)
		}
		if got := ReadSet(tt.set.JSON()); got != tt.set {
			t.Errorf("ReadSet(%s): got %v, want %v", tt.json, got, tt.set)
		}
		if got := tt.set.Newest(); got != tt.newest {
			t.Errorf("Newest of %s: got %v, want %v", tt.json, got, tt.newest)
		}
		if got := tt.set.Strings(); len(got) != len(slices.Compact(got)) || !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Errorf("Strings: got %v, want newest first", got)
		}
	}
	if Legacy|Modern != All || Legacy&Modern != 0 {
		t.Error("the eras do not divide the revisions")
	}
}

func TestReadSetPassesOver(t *testing.T) {
	tests := []struct {
		raw  string
		want Set
	}{
		{`["2025-11-25",7,null,"2099-01-01",["2024-11-05"],"2026-07-28"]`, SetOf(Rev20251125, Rev20260728)},
		{`{"2025-11-25":true}`, 0},
		{`"2025-11-25"`, 0},
		{``, 0},
	}
	for _, tt := range tests {
		if got := ReadSet([]byte(tt.raw)); got != tt.want {
			t.Errorf("ReadSet(%s): got %v, want %v", tt.raw, got.Strings(), tt.want.Strings())
		}
	}
}

// TestFeatures is the table of the specification once more, written the other way round: what each
// revision has.
func TestFeatures(t *testing.T) {
	want := map[Revision][]Feature{
		Rev20241105: {Handshake, Batching, ServerRequests},
		Rev20250326: {Handshake, Batching, Resumption, ServerRequests, AudioContent},
		Rev20250618: {Handshake, Resumption, ServerRequests, VersionHeader, AudioContent, ResourceLinks, Elicitation},
		Rev20251125: {Handshake, Resumption, PrimingEvent, ServerRequests, VersionHeader, AudioContent, ResourceLinks,
			Elicitation, URLElicitation, SamplingTools, Tasks, TitledEnums},
		Rev20260728: {InputRequired, RequestMeta, StandardHeaders, VersionHeader, AudioContent, ResourceLinks,
			Elicitation, URLElicitation, SamplingTools, AnyOutput, TitledEnums, ListenSubscriptions},
	}
	for _, r := range revisions {
		var got []Feature
		for f := Handshake; f <= ListenSubscriptions; f++ {
			if r.Has(f) {
				got = append(got, f)
			}
		}
		if !slices.Equal(got, want[r]) {
			t.Errorf("%v: got %v, want %v", r, got, want[r])
		}
		if r.Modern() == r.Has(Handshake) {
			t.Errorf("%v: both eras or none", r)
		}
	}
}
