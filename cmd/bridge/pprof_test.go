package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestProfilesAreServed(t *testing.T) {
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine", "/debug/pprof/symbol"} {
		w := httptest.NewRecorder()
		profiles().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: got %d with %d bytes, want 200 with a profile", path, w.Code, w.Body.Len())
		}
	}
}
