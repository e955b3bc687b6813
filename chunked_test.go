package bridge_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
)

// After a chunked body nothing more is read from its connection, with a length beside the chunks or without one: whatever a
// proxy took for the body's end, no second request hides in the first (RFC 9112, sections 6.1 and 11.2).
func TestNothingFollowsChunks(t *testing.T) {
	const hidden = "GET /retirement HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(initialize), initialize)
	for _, tt := range []struct {
		name, header, body string
		answers            int
	}{
		{"chunks", "Transfer-Encoding: chunked\r\n", chunks, 1},
		{"length after chunks", fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n", len(chunks)+len(hidden)), chunks, 1},
		{"length before chunks", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", chunks, 1},
		{"length", fmt.Sprintf("Content-Length: %d\r\n", len(initialize)), initialize, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(newBridge(t, &server{}, nil))
			defer srv.Close()
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n" + tt.header + "\r\n"
			if _, err := io.WriteString(c, head+tt.body+hidden); err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(bufio.NewReader(c)) // what was not read of the connection may end it with a reset
			if n := strings.Count(string(got), "HTTP/1.1 200 OK"); n != tt.answers {
				t.Errorf("got %d answers, want %d: %s", n, tt.answers, got)
			}
		})
	}
}
