package legacy

import (
	"net/url"
	"strings"
	"testing"
)

func TestOutboxBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		queued []int // sizes of notifications
		size   int   // of the message pushed
		answer bool
		want   error
	}{
		{"fits", []int{4, 4}, 2, false, nil},
		{"one too many", []int{4, 4}, 3, false, errCut},
		{"any size alone", nil, 1000, false, nil},
		{"after a large one", []int{1000}, 1, false, errCut},
		{"an answer has more room", []int{4, 4}, 72, true, nil},
		{"but not all", []int{4, 4}, 73, true, errCut},
		{"not even after a large one", []int{1000}, 1, true, errCut},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOutbox(10)
			for _, n := range c.queued {
				if err := o.push(make([]byte, n), false); err != nil {
					t.Fatal(err)
				}
			}
			if got := o.push(make([]byte, c.size), c.answer); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestOutboxAfterTheCut(t *testing.T) {
	o := newOutbox(1)
	_ = o.push([]byte("a"), false)
	if err := o.push([]byte("b"), false); err != errCut {
		t.Errorf("got %v, want %v", err, errCut)
	}
	if err := o.push([]byte("c"), true); err != errOver { // the cut is told once
		t.Errorf("got %v, want %v", err, errOver)
	}
	if msg := o.pop(); msg != nil {
		t.Errorf("got %q, want nothing", msg)
	}
}

// Wherever the stream is, the relative reference leads to the message endpoint, also below a prefix that a proxy has
// stripped.
func FuzzRelative(f *testing.F) {
	f.Add("/sse", "/messages", "/p")
	f.Add("/a/b/sse/", "/a/x", "/p/q")
	f.Add("//sse", "/a:b", "")
	f.Add("/a%/é ?", "/m#x", "/x")
	f.Fuzz(func(t *testing.T, from, to, prefix string) {
		from, to = "/"+strings.TrimPrefix(from, "/"), join("", to)
		prefix = strings.TrimRight(prefix, "/")
		if hasDots(from) || hasDots(to) || hasDots(prefix) || strings.Contains(to, "//") || !strings.HasPrefix(prefix+"/", "/") || strings.HasPrefix(prefix+from, "//") {
			t.Skip("no path that a router leaves as it is")
		}
		ref, err := url.Parse(relative(from, to) + "?" + sessionParam + "=x")
		if err != nil {
			t.Fatal(err)
		}
		base := &url.URL{Scheme: "http", Host: "h", Path: prefix + from}
		if got := base.ResolveReference(ref); got.Path != prefix+to || got.Host != "h" || got.RawQuery != "sessionId=x" {
			t.Errorf("%q from %q is %q, want %q", ref, base.Path, got, prefix+to)
		}
	})
}

// hasDots reports whether path has segments that are removed on the way.
func hasDots(path string) bool {
	for seg := range strings.SplitSeq(path, "/") {
		if seg == "." || seg == ".." {
			return true
		}
	}
	return false
}
