package hostile

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// connections is how many connections TestHalfOpen holds: 300, or what HOSTILE_CONNECTIONS says, within the limit of open files.
func connections(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("HOSTILE_CONNECTIONS"))
	if err != nil {
		n = 300
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if most := int(files.Cur) - 500; n > most {
		t.Logf("%d connections instead of %d: no more files may be open", most, n)
		n = most
	}
	return n
}

// Connections that say nothing, not enough, or enough but slowly are closed when their time is up, and let go of; until then everybody
// else is served. With HOSTILE_CONNECTIONS=10000 there are that many.
func TestHalfOpen(t *testing.T) {
	b := start(t, "--body-timeout", "3s")
	session := b.session(t)
	b.honest(t)
	before := b.Usage(t)
	const head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: "
	kinds := []struct {
		name, text, trickle string
		want                string // the status, or nothing at all
	}{
		{"silent", "", "", ""},
		{"half a request line", "POST /m", "", ""},
		{"half a header", head + session[1] + "\r\nX-", "", ""},
		{"header that trickles", head + session[1] + "\r\n", "X-A: b\r\n", ""},
		{"no body", head + session[1] + "\r\nContent-Length: 100\r\n\r\n", "", "408"},
		{"body that trickles", head + session[1] + "\r\nContent-Length: 100\r\n\r\n{", " ", "408"},
		{"chunks that trickle", head + session[1] + "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "1\r\n \r\n", "408"},
		{"half a preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM", "", "403"},
	}
	n := connections(t)
	conns := make([]net.Conn, n)
	for i := range conns {
		kind := kinds[i%len(kinds)]
		conns[i] = b.dial(t)
		if _, err := io.WriteString(conns[i], kind.text); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	began := time.Now()
	b.honest(t)
	during := b.Usage(t)
	if during.Descriptors < before.Descriptors+n/2 {
		t.Errorf("%d files are open, %d were: there is no flood", during.Descriptors, before.Descriptors)
	}
	if grown := during.Resident - before.Resident; grown > memory(int64(n)/4+64) {
		t.Errorf("%d connections take %d MiB", n, grown>>20)
	}
	var ending sync.WaitGroup
	for i, c := range conns {
		kind := kinds[i%len(kinds)]
		if kind.trickle != "" {
			ending.Go(func() { // until the bridge closes the connection
				for range time.Tick(500 * time.Millisecond) {
					if _, err := io.WriteString(c, kind.trickle); err != nil {
						return
					}
				}
			})
		}
		ending.Go(func() {
			got, err := io.ReadAll(c)
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Errorf("%s: the connection is still open after %v", kind.name, time.Since(began))
			}
			if s := strings.Join(statuses(string(got)), " "); s != kind.want && !(kind.want == "" && (s == "400" || s == "408")) {
				t.Errorf("%s: got %q, want %q", kind.name, s, kind.want)
			}
		})
	}
	ending.Wait()
	for _, c := range conns {
		c.Close()
	}
	b.honest(t)
	if after := b.Usage(t); after.Descriptors > before.Descriptors+50 {
		t.Errorf("%d files are open, %d were before", after.Descriptors, before.Descriptors)
	}
	t.Logf("%d connections, closed after %v; %+v before, %+v during, %+v after", n, time.Since(began).Round(time.Second), before, during, b.Usage(t))
}

// A compressed body is refused before anything of it is read, in whatever coding, and a plain one of the same name is not.
func TestCompressedRequests(t *testing.T) {
	b := start(t)
	session, s := b.session(t), b.legacy(t)
	for _, coding := range []string{"gzip", "GZIP", "deflate", "br", "zstd", "x-gzip", "identity, gzip", "gzip, gzip, gzip", "unheard-of"} {
		for _, path := range []string{"/mcp", "/sse", s.post} {
			got := b.raw(t, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nMcp-Session-Id: "+session[1]+
				"\r\nContent-Encoding: "+coding+"\r\nContent-Length: 8000000\r\n\r\n\x1f\x8b\x08") // and no more
			if fmt.Sprint(statuses(got)) != "[415]" {
				t.Errorf("%s on %s: got %.300q, want 415", coding, path, got)
			}
		}
	}
	if a := b.do(t, "POST", "/mcp", tool("1", "echo", "{}"), append(session, "Content-Encoding", "identity")...); a.status != 200 {
		t.Errorf("identity: got %d %s", a.status, a.body)
	}
	if got := heard(t, b.record); strings.Count(got, "tools/call") != 1 {
		t.Errorf("the server has %s", got)
	}
}

// A client that asks and asks and reads nothing of the answers takes a bounded amount of memory, whatever it asks for.
func TestClientsThatDoNotRead(t *testing.T) {
	b := start(t)
	session := b.session(t)
	b.honest(t)
	before := b.Usage(t)
	big := strings.Repeat("x", 1<<20)
	var sending sync.WaitGroup
	for range 16 {
		c := b.dial(t)
		sending.Go(func() {
			body := tool("1", "echo", `"`+big+`"`)
			for range 8 { // pipelined
				_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second)) // the bridge need not read what it has no room for
				if _, err := fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
					session[1], len(body), body); err != nil {
					return
				}
			}
		})
	}
	sending.Wait()
	b.honest(t)
	if grown := b.Usage(t).Resident - before.Resident; grown > memory(512) {
		t.Errorf("16 clients take %d MiB", grown>>20)
	}
}

// A server that floods stdout and stderr, forks, ignores SIGTERM and says things that nobody asked for harms its own callers at most:
// memory stays bounded, no answer reaches another call, and nothing of it is left when the bridge ends (report R37; single cases:
// TestTolerated, TestChildFloods, TestSpoiltAnswers and TestEndlessLine of upstream).
func TestHostileChild(t *testing.T) {
	b := start(t)
	session := b.session(t)
	before := b.Usage(t)
	for _, size := range []int{1 << 20, 64 << 20} {
		if a := b.do(t, "POST", "/mcp", tool("1", "spill", fmt.Sprintf(`{"bytes":%d}`, size)), session...); a.status != 200 || len(a.body) > 64<<10 {
			t.Errorf("after %d bytes of junk: got %d with %d bytes", size, a.status, len(a.body))
		}
	}
	if grown := b.Usage(t).Resident - before.Resident; grown > memory(256) {
		t.Errorf("junk of the server takes %d MiB", grown>>20)
	}
	session = b.session(t) // the child may have lost the other by such a line
	for name, said := range map[string][]string{
		"answers of other ids":     {`{"jsonrpc":"2.0","id":999,"result":{"EVIL":1}}`, `{"jsonrpc":"2.0","id":null,"result":{"EVIL":1}}`, `{"jsonrpc":"2.0","id":-1,"result":{"EVIL":1}}`},
		"answers before requests":  {`{"jsonrpc":"2.0","id":$ID0,"result":{"EVIL":1}}`, `{"jsonrpc":"2.0","id":1000,"result":{"EVIL":1}}`},
		"requests nobody may make": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"EVIL"}}`, `{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":3,"method":"EVIL"}`},
		"cancellation of its own":  {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":$ID}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`},
		"the end of the handshake": {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":$ID,"method":"ping"}`},
	} {
		said = append(said, `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"first"}]}}`, `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"EVIL"}]}}`)
		for range 3 { // the second would meet what was left of the first
			a := b.do(t, "POST", "/mcp", tool("1", "say", lines(said...)), session...)
			if a.status != 200 || strings.Count(a.body, `"id":1,"result":{"content":[{"type":"text","text":"first"}]}`) != 1 || strings.Contains(a.body, `"result":{"EVIL"`) {
				t.Errorf("%s: got %d %s", name, a.status, a.body)
			}
		}
	}
	a := b.do(t, "POST", "/mcp", tool("2", "stay", "{}"), append(session, "Accept", "application/json")...)
	_, rest, _ := strings.Cut(a.body, `"text":"`)
	pid, err := strconv.Atoi(strings.SplitN(rest, `"`, 2)[0])
	if err != nil {
		t.Fatalf("no process: %s", a.body)
	}
	children := b.Children(t)
	b.end(t)
	for _, pid := range append(children, pid) {
		b.gone(t, pid)
	}
}

// gone waits until a process that is no child of the test's has ended.
func (b *bed) gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(harness.ProcessLimit); ; time.Sleep(20 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return // ended, or nobody has waited for it yet
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d outlived the bridge: %s", pid, stat)
		}
	}
}
