package main

import (
	"strings"
	"testing"
	"time"
)

func TestTimesThatMayBeOff(t *testing.T) {
	isolate(t)
	for _, c := range []struct {
		args    []string
		poll    time.Duration
		age     time.Duration
		delay   time.Duration
		problem string
	}{
		{args: nil},
		{args: []string{"--poll-after", "30s", "--max-stream-age", "1h", "--drain-delay", "5s"}, poll: 30 * time.Second, age: time.Hour, delay: 5 * time.Second},
		{args: []string{"--poll-after", "off", "--drain-delay", "0"}},
		{args: []string{"--poll-after", "30"}, problem: `"30" is not a time`},
		{args: []string{"--max-stream-age", "-1s"}, problem: "more than nothing"},
		{args: []string{"--reattach", "some"}, problem: `"some" is none of authenticated, all, off`},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			cfg, err := parse(t, c.args...)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.problem) || (c.problem == "") != (err == nil) {
				t.Fatalf("got %v, want %q", err, c.problem)
			}
			if err != nil {
				return
			}
			if o := cfg.bridge; o.PollAfter != c.poll || o.MaxStreamAge != c.age || cfg.drainDelay != c.delay {
				t.Errorf("got %v, %v, %v; want %v, %v, %v", o.PollAfter, o.MaxStreamAge, cfg.drainDelay, c.poll, c.age, c.delay)
			}
		})
	}
}
