// Command clients is one published Go client that does what it is told, as node/driver.mjs is: words on standard input, JSON objects
// on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// published is what both libraries can do.
type published interface {
	connect(ctx context.Context) error
	call(ctx context.Context) (string, error)
	told() []string // log messages of the server
	close()
}

const stepTimeout = 25 * time.Second

func main() {
	library := flag.String("library", "", "go-sdk or mcp-go")
	url := flag.String("url", "", "of the stream")
	flag.Parse()
	var c published
	switch *library {
	case "go-sdk":
		c = &goSDK{url: *url}
	case "mcp-go":
		c = &mcpGo{url: *url}
	default:
		fmt.Fprintln(os.Stderr, "say -library go-sdk or -library mcp-go")
		os.Exit(2)
	}
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "quit" {
		detail, err := step(c, lines.Text())
		if err != nil {
			detail = err.Error()
		}
		_ = out.Encode(map[string]any{"step": lines.Text(), "ok": err == nil, "detail": detail}) // nobody to tell: the test has ended
	}
	done := make(chan struct{})
	go func() {
		c.close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
}

func step(c published, name string) (string, error) {
	// The context of connect lives on: both libraries tie the stream to it.
	ctx, cancel := context.WithCancelCause(context.Background())
	timer := time.AfterFunc(stepTimeout, func() { cancel(errors.New("no answer within 25 s")) })
	defer timer.Stop()
	switch name {
	case "connect":
		return "connected by sse", c.connect(ctx)
	case "call":
		return c.call(ctx)
	case "told":
		return strings.Join(c.told(), "\n"), nil
	}
	return "", fmt.Errorf("unknown step %q", name)
}
