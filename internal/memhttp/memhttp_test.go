package memhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-dualstack/bridge/internal/memhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memhttp.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s from %s", r.Method, r.Host, body, r.RemoteAddr[:10])
		}))
		for range 3 { // the connection is kept alive
			resp, err := s.Client().Post(s.URL+"/x", "text/plain", strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := "POST 127.0.0.1:8420 hello from 127.0.0.1:"; string(got) != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func TestTimePassesWhileAStreamIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memhttp.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := range 3 {
				time.Sleep(time.Hour)
				fmt.Fprintf(w, "%d", i)
				_ = http.NewResponseController(w).Flush()
			}
		}))
		start := time.Now()
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if string(got) != "012" || err != nil {
			t.Errorf("got %q and %v, want 012 and no error", got, err)
		}
		if took := time.Since(start); took != 3*time.Hour {
			t.Errorf("took %v, want 3h", took)
		}
	})
}

func TestClientGoneEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		s := memhttp.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(ended)
		}))
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		<-ended // a deadlock of the bubble otherwise
	})
}

func TestWriteDeadlineOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan error, 1)
		s := memhttp.NewWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			_ = rc.SetWriteDeadline(time.Now().Add(time.Minute))
			_, err := w.Write(make([]byte, 1<<20))
			written <- errors.Join(err, rc.Flush())
		}), &memhttp.Options{BufferBytes: 4 << 10})
		start := time.Now()
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() // never read
		if err := <-written; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want %v", err, os.ErrDeadlineExceeded)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v, want 1m", took)
		}
	})
}

func TestServerOptionsApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memhttp.NewWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute)
		}), &memhttp.Options{Server: func(hs *http.Server) { hs.WriteTimeout = time.Second }})
		_, err := s.Client().Get(s.URL)
		if err == nil {
			t.Error("got a response after the WriteTimeout, want an error")
		}
	})
}

func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memhttp.Pipe(8, nil, nil)
		if n, err := a.Write([]byte("12345678")); n != 8 || err != nil {
			t.Fatalf("got %d, %v, want 8 and no error", n, err)
		}
		a.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := a.Write([]byte("9")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write to a full buffer: got %d, %v, want a deadline", n, err)
		}
		a.SetWriteDeadline(time.Time{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if n, err := a.Write([]byte("9abc")); n != 4 || err != nil {
				t.Errorf("got %d, %v, want 4 and no error", n, err)
			}
			a.Close()
		})
		synctest.Wait()
		got, err := io.ReadAll(b)
		if want := "123456789abc"; string(got) != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		wg.Wait()
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed end: got %v, want EPIPE", err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read of a closed end: got %v, want %v", err, net.ErrClosed)
		}
	})
}

func TestHalfClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memhttp.Pipe(8, nil, nil)
		if err := a.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(b); len(got) != 0 || err != nil {
			t.Errorf("got %q, %v, want the end", got, err)
		}
		if _, err := b.Write([]byte("still")); err != nil {
			t.Error(err)
		}
		b.Close()
		if got, err := io.ReadAll(a); !bytes.Equal(got, []byte("still")) || err != nil {
			t.Errorf("got %q, %v, want still", got, err)
		}
	})
}

func TestReadDeadlineInThePastWakesTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := memhttp.Pipe(8, nil, nil)
		got := make(chan error, 1)
		go func() {
			_, err := a.Read(make([]byte, 1))
			got <- err
		}()
		synctest.Wait()
		a.SetReadDeadline(time.Unix(1, 0))
		if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want %v", err, os.ErrDeadlineExceeded)
		}
	})
}
