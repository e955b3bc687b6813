//go:build !nolegacy

package bridge_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
)

// What the API changes is in force, in the audit log, and refused when it is out of date or not allowed.
func TestConsoleChangesTheStage(t *testing.T) {
	dir := t.TempDir()
	h, b, _ := console(t, &bridge.Options{State: dir})
	put := func(body string) (int, string) {
		w := operate(h, http.MethodPut, "/admin/stage", body, nil)
		return w.Code, w.Body.String()
	}
	if code, text := put(`{"version":0,"stage":"announce","reason":"we begin"}`); code != http.StatusOK {
		t.Fatalf("got %d %s", code, text)
	}
	s := b.Retirement().State()
	if s.Stage != "announce" || s.By != "admin" || s.Reason != "we begin" || s.Deprecation.IsZero() {
		t.Errorf("got %+v", s)
	}
	for name, tt := range map[string]struct {
		body string
		want int
		code string
	}{
		"stale":                {`{"version":0,"stage":"warn"}`, http.StatusConflict, "stale"},
		"not ready":            {`{"version":1,"stage":"gone"}`, http.StatusConflict, "not_ready"},
		"force without reason": {`{"version":1,"stage":"gone","force":true}`, http.StatusBadRequest, "invalid"},
		"sunset too early":     {`{"version":1,"state":{"version":1,"stage":"warn","sunset":"2001-01-01T00:00:00Z","deprecation":"2002-01-01T00:00:00Z"}}`, http.StatusBadRequest, "invalid"},
		"both forms":           {`{"version":1,"stage":"warn","state":{"version":1,"stage":"warn"}}`, http.StatusBadRequest, "invalid"},
		"trailing value":       {`{"version":1,"stage":"warn"} {}`, http.StatusBadRequest, "invalid"},
		"too large":            {`{"version":1,"stage":"warn","reason":"` + strings.Repeat("r", 1<<20) + `"}`, http.StatusRequestEntityTooLarge, "invalid"},
	} {
		code, text := put(tt.body)
		var p struct{ Error, Code string }
		if err := json.Unmarshal([]byte(text), &p); err != nil || code != tt.want || p.Code != tt.code || p.Error == "" {
			t.Errorf("%s: got %d %s, want %d %s", name, code, text, tt.want, tt.code)
		}
	}
	if code, text := put(`{"version":1,"stage":"closed","force":true,"reason":"it must be"}`); code != http.StatusOK {
		t.Fatalf("got %d %s", code, text)
	}
	records, err := b.Retirement().History()
	if err != nil || len(records) != 2 {
		t.Fatalf("got %v %v, want two records", records, err)
	}
	if r := records[1]; !r.Forced || len(r.Digest) != 64 || r.Origin != "api" || r.Remote.String() != "127.0.0.0/24" {
		t.Errorf("got %+v, want a forced step with the digest of the report", r)
	}
	if w := operate(h, http.MethodPost, "/admin/undo", `{"version":2}`, nil); w.Code != http.StatusOK || b.Retirement().State().Stage != "announce" {
		t.Errorf("undo: got %d %s", w.Code, w.Body)
	}
	if _, err := os.Stat(filepath.Join(dir, "retirement.json")); err != nil {
		t.Error(err)
	}
}

// Exemptions are added, replaced and taken away, and show in the report of whom they are for.
func TestConsoleExempts(t *testing.T) {
	h, b, _ := console(t, nil)
	for _, owner := range []string{"first", "second"} {
		if w := operate(h, http.MethodPost, "/admin/exemptions", `{"id":"sub:1","until":"2099-01-01T00:00:00Z","owner":"`+owner+`"}`, nil); w.Code != http.StatusOK {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	if e := b.Retirement().State().Exemptions; len(e) != 1 || e[0].Owner != "second" {
		t.Errorf("got %+v, want one", e)
	}
	if w := operate(h, http.MethodDelete, "/admin/exemptions?id=sub:1", "", nil); w.Code != http.StatusOK || len(b.Retirement().State().Exemptions) != 0 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
