package streamable_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/streamable"
)

// overHTTP2 gives b a client that speaks HTTP/2 without TLS, as a proxy does, all on one connection, and a server with
// timeouts that would cut every stream.
func overHTTP2(t *testing.T, b *bed) {
	t.Helper()
	var h2 http.Protocols
	h2.SetUnencryptedHTTP2(true)
	b.http = memhttp.NewWith(t, b.front, &memhttp.Options{Server: func(hs *http.Server) {
		hs.Protocols, hs.ReadTimeout, hs.WriteTimeout = &h2, 5*time.Second, 5*time.Second
	}})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return b.http.Dial(ctx) }
	tr := &http.Transport{Protocols: &h2, DialContext: dial}
	b.client = &http.Client{Transport: tr}
	t.Cleanup(func() {
		b.front.Close()
		tr.CloseIdleConnections()
	})
}

// R30, over HTTP/2: streams outlast the server's timeouts and their own write deadlines, and carry what comes late.
func TestHTTP2(t *testing.T) {
	inBubble(t, takes(time.Hour), streamable.Options{WriteTimeout: 5 * time.Second, BodyTimeout: 5 * time.Second, KeepAlive: time.Minute}, func(t *testing.T, b *bed) {
		overHTTP2(t, b)
		s := b.session("2025-11-25")
		back := b.script.last().Back
		get := b.listen(s)
		if get.resp.ProtoMajor != 2 {
			t.Fatalf("got %s, want HTTP/2", get.resp.Proto)
		}
		call := b.open(http.MethodPost, callOne, s)
		body, headers := modern("9", "tools/call", `"name":"x"`)
		stateless := b.open(http.MethodPost, body, headers...)
		want(t, "prime", call.event(), "id: TAG.2.0\ndata: \n")
		time.Sleep(time.Hour)
		want(t, "call", call.event(), message("TAG.2.1", doneFive))
		want(t, "call afterwards", call.event(), "")
		want(t, "stateless", stateless.event(), message("", `{"jsonrpc":"2.0","id":9,"result":{"done":true}}`))
		if err := back.Notify(t.Context(), note("notifications/message", `{}`)); err != nil {
			t.Error(err)
		}
		want(t, "GET", get.event(), message("TAG.0.1", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
	})
}

// R35, over HTTP/2: who does not read is cut by the write deadline, or by what waits for it, alone among those on its connection, and has the
// rest when it comes back.
func TestHTTP2SlowReader(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes int // that may wait
	}{
		{"write deadline", 64 << 20},
		{"what waits", 64 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			large := strings.Repeat("y", 256<<10)
			h := &script{call: func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
				for range 40 { // more than a client's windows
					_ = back.Notify(ctx, note("notifications/progress", `"`+large+`"`))
				}
				time.Sleep(time.Minute)
				return result(`{"done":true}`), nil
			}}
			inBubble(t, h, streamable.Options{WriteTimeout: 5 * time.Second, KeepAlive: time.Hour, StreamBytes: c.bytes, ReplayBytes: 64 << 20}, func(t *testing.T, b *bed) {
				overHTTP2(t, b)
				s := b.session("2025-11-25")
				get := b.listen(s)
				slow := b.open(http.MethodPost, callOne, s)
				id := slow.id()
				synctest.Wait()
				time.Sleep(30 * time.Second)
				if _, err := io.Copy(io.Discard, slow.resp.Body); err == nil {
					t.Error("the slow stream ended as if it were complete")
				}
				back := b.script.last().Back
				_ = back.Notify(t.Context(), note("notifications/message", `{}`))
				want(t, "GET on the same connection", get.event(), message("TAG.0.1", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
				again := b.listen(s, "Last-Event-ID: "+strings.TrimSuffix(id, "0")+"39")
				want(t, "resumed", again.event(), "id: TAG.2.39\ndata: \n")
				if got := again.event(); !strings.HasPrefix(got, "event: message\nid: TAG.2.40\n") {
					t.Errorf("resumed: got %.60q", got)
				}
				want(t, "result", again.event(), message("TAG.2.41", doneFive))
			})
		})
	}
}

// A body that does not come holds one stream, not the connection.
func TestHTTP2SlowBody(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{BodyTimeout: 20 * time.Second}, func(t *testing.T, b *bed) {
		overHTTP2(t, b)
		s := b.session("2025-06-18")
		get := b.listen(s)
		body, w := io.Pipe()
		defer w.Close()
		req, _ := http.NewRequest(http.MethodPost, b.http.URL+"/mcp", body)
		req.Header.Set("Content-Type", "application/json")
		begun := time.Now()
		resp, err := b.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		line, _ := bufio.NewReader(resp.Body).ReadString('\n')
		if resp.StatusCode != http.StatusRequestTimeout || time.Since(begun) > 20*time.Second {
			t.Errorf("got %s after %v: %s", resp.Status, time.Since(begun), line)
		}
		_ = b.script.last().Back.Notify(t.Context(), note("notifications/message", `{}`))
		want(t, "GET", get.event(), message("TAG.0.1", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
	})
}
