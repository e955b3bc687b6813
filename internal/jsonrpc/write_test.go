package jsonrpc_test

import (
	"testing"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

func TestAppend(t *testing.T) {
	dst := []byte("x")
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"request", jsonrpc.AppendRequest(dst, []byte(`"a"`), "tools/call", []byte(`{"a" :1.0}`)), `x{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"a" :1.0}}`},
		{"request without params", jsonrpc.AppendRequest(dst, []byte(`1`), "a\"b", nil), `x{"jsonrpc":"2.0","id":1,"method":"a\"b"}`},
		{"notification", jsonrpc.AppendNotification(dst, "m", []byte(`[]`)), `x{"jsonrpc":"2.0","method":"m","params":[]}`},
		{"notification without params", jsonrpc.AppendNotification(dst, "m", nil), `x{"jsonrpc":"2.0","method":"m"}`},
		{"result", jsonrpc.AppendResult(dst, []byte(`7`), []byte(`{"a":1}`)), `x{"jsonrpc":"2.0","id":7,"result":{"a":1}}`},
		{"no result", jsonrpc.AppendResult(dst, []byte(`7`), nil), `x{"jsonrpc":"2.0","id":7,"result":{}}`},
		{"error", jsonrpc.AppendError(dst, []byte(`7`), jsonrpc.Errorf(-32602, "bad %q", "x")), `x{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"bad \"x\""}}`},
		{"error with data", jsonrpc.AppendError(dst, nil, &jsonrpc.Error{Code: 1, Message: "m", Data: []byte(`{}`)}), `x{"jsonrpc":"2.0","error":{"code":1,"message":"m","data":{}}}`},
		{"error as it came", jsonrpc.AppendError(dst, []byte(`7`), &jsonrpc.Error{Code: 1, Raw: []byte(`{ "code":2,"x":1e2 }`)}), `x{"jsonrpc":"2.0","id":7,"error":{ "code":2,"x":1e2 }}`},
	}
	for _, tt := range tests {
		if string(tt.got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}
