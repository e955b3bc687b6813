package streamable

import (
	"net/http"
	"testing"
)

func TestIsListen(t *testing.T) {
	tests := []struct {
		name   string
		header http.Header
		want   bool
	}{
		{"a listen", http.Header{"Mcp-Method": {"subscriptions/listen"}}, true},
		{"a call", http.Header{"Mcp-Method": {"tools/call"}}, false},
		{"an older client", http.Header{}, false},
		{"said twice", http.Header{"Mcp-Method": {"subscriptions/listen", "tools/call"}}, false},
		{"another spelling", http.Header{"Mcp-Method": {"Subscriptions/Listen"}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := isListen(tt.header); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
