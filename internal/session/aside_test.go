package session_test

import (
	"testing"

	"github.com/mcp-dualstack/bridge/internal/session"
)

func TestAside(t *testing.T) {
	done := false
	session.Aside(func() { done = true })
	if !done {
		t.Error("it did not run, or was not waited for")
	}
	defer func() {
		if got := recover(); got != "why" {
			t.Errorf("got %v, want the panic", got)
		}
	}()
	session.Aside(func() { panic("why") })
}
