package negotiate_test

import (
	"testing"

	. "github.com/mcp-dualstack/bridge/negotiate"
)

// The rows are those of the table of translation.md 4, "Answer to the client", and of R20.
func TestReadInitializeAnswer(t *testing.T) {
	late := SetOf(Rev20250618, Rev20251125)
	tests := []struct {
		name, params string
		enabled      Set
		want         Revision
	}{
		{"2024-11-05", `{"protocolVersion":"2024-11-05"}`, All, Rev20241105},
		{"2025-03-26", `{"protocolVersion":"2025-03-26"}`, All, Rev20250326},
		{"2025-06-18", `{"protocolVersion":"2025-06-18"}`, All, Rev20250618},
		{"2025-11-25", `{"protocolVersion":"2025-11-25"}`, All, Rev20251125},
		{"with escapes", `{"protocolVersion":"2025\u002d06-18"}`, All, Rev20250618},
		{"modern", `{"protocolVersion":"2026-07-28"}`, All, Rev20251125},
		{"modern, 2025-11-25 retired", `{"protocolVersion":"2026-07-28"}`, All &^ SetOf(Rev20251125), Rev20250618},
		{"later", `{"protocolVersion":"2099-01-01"}`, All, Rev20251125},
		{"between the eras", `{"protocolVersion":"2026-03-01"}`, All, Rev20251125},
		{"unknown between 2024-11-05 and 2025-03-26", `{"protocolVersion":"2025-01-01"}`, All, Rev20241105},
		{"unknown between 2025-06-18 and 2025-11-25", `{"protocolVersion":"2025-11-24"}`, All, Rev20250618},
		{"unknown between, nearest retired", `{"protocolVersion":"2025-11-24"}`, All &^ SetOf(Rev20250618), Rev20250326},
		{"the draft", `{"protocolVersion":"2024-10-07"}`, All, Rev20241105},
		{"next to the draft", `{"protocolVersion":"2024-10-08"}`, All, Rev20251125},
		{"older", `{"protocolVersion":"1900-01-01"}`, All, Rev20251125},
		{"older, some retired", `{"protocolVersion":"1900-01-01"}`, SetOf(Rev20250326), Rev20250326},
		{"no date", `{"protocolVersion":"zzz"}`, All, Rev20251125},
		{"no date, low", `{"protocolVersion":"1.0"}`, late, Rev20251125},
		{"no separator", `{"protocolVersion":"2025-11x24"}`, All, Rev20251125},
		{"below the digits", `{"protocolVersion":"2025-1/-24"}`, All, Rev20251125},
		{"above the digits", `{"protocolVersion":"2025-1:-24"}`, All, Rev20251125},
		{"lowest and highest digits", `{"protocolVersion":"2025-09-09"}`, All, Rev20250618},
		{"empty string", `{"protocolVersion":""}`, All, Rev20251125},
		{"date with blanks", `{"protocolVersion":" 2024-11-05"}`, All, Rev20251125},
		{"no params", ``, All, Rev20241105},
		{"null params", `null`, All, Rev20241105},
		{"empty params", `{ }`, All, Rev20241105},
		{"retired, an older one enabled", `{"protocolVersion":"2025-06-18"}`, SetOf(Rev20241105, Rev20251125), Rev20241105},
		{"newest retired", `{"protocolVersion":"2025-11-25"}`, SetOf(Rev20241105, Rev20250326), Rev20250326},
	}
	for _, tt := range tests {
		got, err := ReadInitialize([]byte(tt.params), tt.enabled)
		if err != nil || got.Answer != tt.want {
			t.Errorf("%s: got %v %v, want %v", tt.name, got.Answer, err, tt.want)
		}
	}
}

func TestReadInitializeRefuses(t *testing.T) {
	late := SetOf(Rev20250618, Rev20251125, Rev20260728)
	data := func(supported, requested string) string {
		return `{"supported":[` + supported + `],"requested":` + requested + `,"bridge":{"reason":"unsupported_revision"}}`
	}
	const two, all = `"2025-11-25","2025-06-18"`, `"2025-11-25","2025-06-18","2025-03-26","2024-11-05"`
	tests := []struct {
		name, params string
		enabled      Set
		data         string
	}{
		{"retired, nothing older", `{"protocolVersion":"2024-11-05"}`, late, data(two, `"2024-11-05"`)},
		{"retired, kept as written", `{"protocolVersion":"2025\u002d03-26"}`, late, data(two, `"2025\u002d03-26"`)},
		{"between, nothing older", `{"protocolVersion":"2025-01-01"}`, late, data(two, `"2025-01-01"`)},
		{"the draft, nothing older", `{"protocolVersion":"2024-10-07"}`, late, data(two, `"2024-10-07"`)},
		{"no params, 2024-11-05 retired", ``, late, data(two, `null`)},
		{"nothing enabled", `{"protocolVersion":"2025-11-25"}`, Modern, data(``, `"2025-11-25"`)},
		{"no version", `{"capabilities":{}}`, All, data(all, `null`)},
		{"only _meta", `{"_meta":{}}`, All, data(all, `null`)},
		{"null version", `{"protocolVersion":null}`, All, data(all, `null`)},
		{"number", `{"protocolVersion":20251125}`, All, data(all, `20251125`)},
		{"params an array", `["2025-11-25"]`, All, data(all, `null`)},
		{"capabilities no object", `{"protocolVersion":"2025-11-25","capabilities":[]}`, All, reason("malformed_request")},
		{"clientInfo no object", `{"protocolVersion":"2025-11-25","clientInfo":"me"}`, All, reason("malformed_request")},
	}
	for _, tt := range tests {
		got, err := ReadInitialize([]byte(tt.params), tt.enabled)
		if err == nil || err.Code != -32602 || string(err.Data) != tt.data {
			t.Errorf("%s: got %v, error %+v, want data %s", tt.name, got.Answer, err, tt.data)
		}
	}
}

func TestReadInitializeFields(t *testing.T) {
	in, err := ReadInitialize([]byte(`{"clientInfo": {"name":"x" ,"new":1e400},"protocolVersion":"2025-06-18","capabilities": { "roots":{} }}`), All)
	if err != nil {
		t.Fatal(err)
	}
	if in.Requested != "2025-06-18" || string(in.Capabilities) != `{ "roots":{} }` || string(in.Info) != `{"name":"x" ,"new":1e400}` {
		t.Errorf("got %q %s %s", in.Requested, in.Capabilities, in.Info)
	}
	in, err = ReadInitialize([]byte(`{"protocolVersion":"2025-06-18","capabilities":null}`), All)
	if err != nil || in.Capabilities != nil || in.Info != nil {
		t.Errorf("null and absent: got %s %s %v, want nil", in.Capabilities, in.Info, err)
	}
}

func FuzzReadInitialize(f *testing.F) {
	f.Add([]byte(`{"protocolVersion":"2025-06-18"}`), uint16(All))
	f.Add([]byte(`{"protocolVersion":"2024-10-07"}`), uint16(Legacy))
	f.Add([]byte(`{}`), uint16(0))
	f.Fuzz(func(t *testing.T, params []byte, enabled uint16) {
		m, ok := scanParams("initialize", params)
		if !ok {
			return
		}
		in, err := ReadInitialize(m.Params, Set(enabled))
		if err == nil && (in.Answer.Modern() || !Set(enabled).Has(in.Answer)) {
			t.Fatalf("answered %v, enabled %v", in.Answer, Set(enabled).Strings())
		}
		if asked, known := Parse(in.Requested); err == nil && known && !asked.Modern() && in.Answer > asked {
			t.Fatalf("answered %v to %v", in.Answer, asked)
		}
	})
}
