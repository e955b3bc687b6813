package hostile

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// forged is what nobody but an attacker writes; a line that begins with it is a line of the attacker's.
const forged = `{"time":"2026-01-01T00:00:00Z","level":"ERROR","msg":"FORGED"}`

// inject are endings of a log line, each followed by one that looks like the bridge's own.
var inject = []string{"x\n" + forged + "\n", "x\r\n" + forged, "x\r" + forged, "x\u2028" + forged, "x\u0085" + forged, "x\x1b[2J\x1b[1;1H" + forged, "x\x00\v\f" + forged, "\u202e" + forged}

// Whatever peers call themselves and whatever they ask for, a log line stays one line of printable characters, as text and as JSON; the same
// goes for the screen at the start.
func TestLogInjection(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			record := filepath.Join(t.TempDir(), "record")
			b := start(t, "--log-format", format, "--log-level", "debug", "--", os.Args[0], childWord, record, `evil\n`+strings.ReplaceAll(forged, `"`, `\"`)+`\x1b[2J`)
			for _, text := range inject {
				q := quoted(text)
				info := `{"protocolVersion":` + q + `,"capabilities":{},"clientInfo":{"name":` + q + `,"version":` + q + `,"title":` + q + `}}`
				b.do(t, "POST", "/mcp", harness.Request("1", "initialize", info))
				session := b.session(t)
				b.do(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":`+q+`,"method":`+q+`,"params":{}}`, session...)
				b.do(t, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+q+`,"reason":`+q+`}}`, session...)
				b.do(t, "POST", "/mcp", tool("2", "mutter", lines(text)), session...)
				b.do(t, "POST", "/mcp", tool("3", "say", lines(text, `{"jsonrpc":"2.0","method":`+q+`}`, `{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":`+q+`}}`)), session...)
				b.do(t, "POST", "/mcp", harness.Request("4", "tools/call", `{"name":`+q+`,"arguments":{}}`), session...)
				s := b.open(t, "GET", "/sse?x="+strings.NewReplacer("\n", "%0a", "\r", "%0d", " ", "%20").Replace("\n"+strings.ReplaceAll(forged, `"`, "%22")), "")
				s.post = strings.TrimPrefix(s.next(t).Data, b.base)
				b.accepted(t, s, harness.Request("1", "initialize", info))
				s.message(t)
				s.resp.Body.Close()
			}
			b.raw(t, "GET /%0a"+strings.NewReplacer(`"`, "%22", " ", "%20").Replace(forged)+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nUser-Agent: \xff\xfe\xe2\x80\xa8"+forged+"\r\n\r\n")
			b.raw(t, "\x1b[2J"+forged+" / HTTP/1.1\r\n\r\n")
			b.raw(t, "GET / HTTP/1.1\r\nHost: evil\x1b[2J\r\nConnection: close\r\n\r\n")
			b.raw(t, "GET /sse HTTP/1.1\r\nHost: localhost\r\nOrigin: http://\xe2\x80\xae\xe2\x80\xa8"+forged+"\r\nConnection: close\r\n\r\n")
			b.honest(t)
			b.end(t)
			checkLog(t, b.Output(), format)
		})
	}
}

func checkLog(t *testing.T, log, format string) {
	t.Helper()
	seen := 0
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, forged) || strings.Contains(line, "FORGED") && strings.HasPrefix(strings.TrimSpace(line), "{") && !strings.Contains(line, `\"FORGED\"`) {
			t.Errorf("a line of an attacker's: %q", line)
		}
		if strings.Contains(line, "FORGED") {
			seen++
		}
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a line with what does not print: %q", line)
		}
		if format == "json" && strings.HasPrefix(line, `{"`) && !json.Valid([]byte(line)) {
			t.Errorf("a line that is no JSON: %q", line)
		}
	}
	if seen == 0 {
		t.Error("nothing of what was sent is in the log: nothing was looked at")
	}
}

// Names that a spreadsheet would compute, names with the marks of CSV, XML and of the text format of Prometheus in them: every form of the
// report says them as names (OWASP, CSV Injection).
func TestReportInjection(t *testing.T) {
	state := t.TempDir()
	b := start(t, "--state", state)
	names := []string{
		`=cmd|' /C calc'!A0`, `+1+1`, `-2+3`, `@SUM(A1:A9)`, "\t=1+1", "\r=1+1", "\n=1+1", "\u00a0=1+1", "\u200b=1+1", "＝1+1", `"=1+1`, "a,\"b\"\n=1+1", `a;=1+1`, `</testsuite><x>&evil;]]>`,
		"a\"} 1\nbridge_forged 1\n", "\x1b[2Ja", "\u202eevil", `'; DROP TABLE identities; --`, `../../etc/passwd`, `%n%s`,
	}
	for _, name := range names {
		q := quoted(name)
		s := b.open(t, "GET", "/sse", "", "User-Agent", strings.NewReplacer("\n", "", "\r", "", "\x1b", "").Replace(name))
		s.post = strings.TrimPrefix(s.next(t).Data, b.base)
		b.accepted(t, s, harness.Request("1", "initialize", `{"protocolVersion":`+q+`,"capabilities":{},"clientInfo":{"name":`+q+`,"version":`+q+`}}`))
		s.message(t)
		s.resp.Body.Close()
	}
	b.end(t)
	for _, format := range []string{"csv", "text", "json", "prom", "junit"} {
		t.Run(format, func(t *testing.T) {
			out := print(t, "report", "--state", state, "--output", format)
			checkPrinted(t, out)
			switch format {
			case "csv":
				checkCSV(t, out, len(names))
			case "json":
				if !json.Valid([]byte(out)) {
					t.Errorf("no JSON: %s", out)
				}
			case "prom":
				if strings.Contains("\n"+out, "\nbridge_forged") {
					t.Errorf("a metric of an attacker's: %s", out)
				}
			case "junit":
				checkXML(t, out)
			}
		})
	}
	t.Run("ledger list", func(t *testing.T) {
		checkPrinted(t, print(t, "ledger", "list", "--state", state))
		checkCSV(t, print(t, "ledger", "list", "--state", state, "--output", "csv"), len(names))
	})
}

// print returns what a command of the bridge prints.
func print(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(bridgeProgram, args...).Output()
	if e, ok := err.(*exec.ExitError); err != nil && (!ok || e.ExitCode() > 3 || e.Sys().(syscall.WaitStatus).Signaled()) {
		t.Fatalf("%v: %v", args, err)
	}
	return string(out)
}

func checkPrinted(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if strings.ContainsFunc(strings.TrimRight(line, "\r\n"), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a line with what does not print: %q", line)
		}
	}
	if !strings.Contains(out, "1+1") && !strings.Contains(out, "# HELP") && !strings.Contains(out, "<testsuite") {
		t.Errorf("nothing to look at: %s", out)
	}
}

func checkCSV(t *testing.T, out string, least int) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll() // which wants the same number of cells in each row
	if err != nil || len(rows) < least/2 {
		t.Fatalf("got %d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if strings.ContainsAny(firstOf(cell), "=+-@＝＋－＠\t\r\n") {
				t.Errorf("a formula: %q", cell)
			}
		}
	}
}

// firstOf returns the first character that a spreadsheet looks at.
func firstOf(cell string) string {
	for _, r := range strings.TrimLeftFunc(cell, unicode.IsSpace) {
		return string(r)
	}
	return ""
}

func checkXML(t *testing.T, out string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(out))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("no XML: %v in %s", err, out)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "x" {
			t.Errorf("an element of an attacker's in %s", out)
		}
	}
}
