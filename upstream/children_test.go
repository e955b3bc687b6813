package upstream_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// The children that the test binary can be.
var children = map[string]func(stdio) error{
	"dual":   func(s stdio) error { return exchangetest.Serve(s, negotiate.All) },
	"legacy": func(s stdio) error { return exchangetest.Serve(s, negotiate.Legacy) },
	"modern": func(s stdio) error { return exchangetest.Serve(s, negotiate.Modern) },

	"exit at once": func(stdio) error { return fmt.Errorf("panic: %s", os.Args) },
	"exit on initialize": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool { return m.Method == "initialize" })
	},
	"exit on probe": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool { return m.Method == "server/discover" || plainly(s, m) })
	},
	"mute on probe": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool { return m.Method != "server/discover" && plainly(s, m) })
	},
	"deaf after probe": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool {
			if m.Method == "server/discover" {
				time.Sleep(time.Hour)
			}
			return plainly(s, m)
		})
	},
	"closes stdout": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool {
			if m.Method == "quit" {
				_ = os.Stdout.Close()
				time.Sleep(time.Hour)
			}
			return plainly(s, m)
		})
	},
	"stops reading": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool {
			if m.Method == "quit" {
				time.Sleep(time.Hour)
			}
			return plainly(s, m)
		})
	},
	"floods": func(s stdio) error {
		var flooding sync.Once
		line := string(jsonrpc.AppendNotification(nil, "notifications/message", fmt.Appendf(nil, `{"level":"info","data":"%01024d"}`, 0))) + "\n"
		return play(s, func(m *jsonrpc.Message) bool {
			if m.Method == "size" {
				flooding.Do(func() {
					go func() { // until the process ends
						for range 200_000 {
							_, _ = io.WriteString(s, line)
						}
					}()
				})
			}
			return plainly(s, m)
		})
	},
	"hang": func(stdio) error { time.Sleep(time.Hour); return nil },
	"stubborn": func(s stdio) error {
		signal.Ignore(syscall.SIGTERM)
		_ = play(s, func(m *jsonrpc.Message) bool { return plainly(s, m) })
		time.Sleep(time.Hour)
		return nil
	},
	"noisy": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool {
			fmt.Fprintf(s, "Server running\n\n{broken\n42\n{}\n%s\n", strings.Repeat("junk", 1<<18))
			return plainly(s, m)
		})
	},
	"stderr with lines": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool {
			_, _ = io.WriteString(os.Stderr, strings.Repeat("warning: something\n", 1<<16))
			return plainly(s, m)
		})
	},
	"stderr without lines": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool {
			_, _ = io.WriteString(os.Stderr, strings.Repeat("x", 1<<20))
			return plainly(s, m)
		})
	},
	"surroundings": func(s stdio) error {
		return play(s, func(m *jsonrpc.Message) bool {
			if m.Method == "surroundings" {
				dir, _ := os.Getwd()
				s.answer(m, fmt.Sprintf(`{"dir":%q,"env":%q}`, dir, strings.Join(os.Environ(), "\n")))
				return false
			}
			return plainly(s, m)
		})
	},
	"grandchild": func(s stdio) error {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=hang")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		return play(s, func(m *jsonrpc.Message) bool {
			if m.Method == "pid" {
				s.answer(m, fmt.Sprintf(`{"pid":%d}`, cmd.Process.Pid))
				return false
			}
			return plainly(s, m)
		})
	},
}

// play reads messages until the end of input or until f returns true.
func play(s stdio, f func(*jsonrpc.Message) (end bool)) error {
	r := bufio.NewReader(s)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil
		}
		m, refusal := jsonrpc.Scan(line)
		if refusal != nil {
			return refusal
		}
		if f(&m) {
			return nil
		}
	}
}

// plainly answers as a small legacy server: initialize, "size" with a text of that many bytes, "quit" which
// ends it; everything else, server/discover too, is not found.
func plainly(s stdio, m *jsonrpc.Message) (end bool) {
	switch {
	case m.Kind != jsonrpc.Request:
	case m.Method == "initialize":
		s.answer(m, `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"plain","version":"1"}}`)
	case m.Method == "size":
		var n int
		_, _ = fmt.Sscan(string(jsonrpc.Get(m.Params, "n")), &n)
		s.answer(m, `{"x":"`+strings.Repeat("x", n)+`"}`)
	case m.Method == "quit":
		return true
	default:
		fmt.Fprintf(s, "%s\n", jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found")))
	}
	return false
}

func (s stdio) answer(m *jsonrpc.Message, result string) {
	fmt.Fprintf(s, "%s\n", jsonrpc.AppendResult(nil, m.ID, []byte(result)))
}
