package telemetry_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/telemetry"
)

func TestPeriods(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration
		back string // empty: there is none
	}{
		{"30d", 30 * 24 * time.Hour, "30d"},
		{"6h", 6 * time.Hour, "6h"},
		{"1d12h", 36 * time.Hour, "1d12h"},
		{"48h", 48 * time.Hour, "2d"},
		{"90m", 90 * time.Minute, "1h30m"},
		{"1h0m5s", time.Hour + 5*time.Second, "1h0m5s"},
		{"0s", 0, "0s"},
		{"0d", 0, "0s"},
		{"d", 0, ""}, {"", 0, ""}, {"30", 0, ""}, {"-1d", 0, ""}, {"-6h", 0, ""}, {"1d-6h", 0, ""}, {"a month", 0, ""}, {"1.5d", 0, ""}, {"99999d", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := telemetry.ParsePeriod(tt.text)
			if ok := err == nil; ok != (tt.back != "") || got.Duration() != tt.want {
				t.Fatalf("got %v, %v, want %v", got, err, tt.want)
			}
			if err == nil && got.String() != tt.back {
				t.Errorf("got %s, want %s", got, tt.back)
			}
		})
	}
}

// FuzzPeriod: what is read is written so that it is read again.
func FuzzPeriod(f *testing.F) {
	for _, s := range []string{"30d", "1d12h", "1h0m5s", "1ns", "0d0.5s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := telemetry.ParsePeriod(s)
		if err != nil {
			return
		}
		if again, err := telemetry.ParsePeriod(p.String()); err != nil || again != p {
			t.Errorf("%q is %v, and %q is %v, %v", s, time.Duration(p), p.String(), time.Duration(again), err)
		}
	})
}

func TestPolicyCheck(t *testing.T) {
	if err := telemetry.DefaultPolicy().Check(); err != nil {
		t.Errorf("default: %v", err)
	}
	var p telemetry.Policy
	if err := json.Unmarshal([]byte(`{"surface":"stdio","quiet_period":"1h","min_observation":"500d","max_traffic_share":2,"max_identities":-1,"cadence_factor":0.5,
		"ignore":["nice"],"exemptions":[{"id":"x"}],"attested":[{"id":"x","class":"proven"}],"owners":[{}]}`), &p); err != nil {
		t.Fatal(err)
	}
	err := p.Check()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, word := range []string{"surface", "quiet_period", "min_observation", "max_traffic_share", "max_identities", "cadence_factor", "ignore", "exemptions[0]", "attested[0]", "owners[0]"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want %s in it", err, word)
		}
	}
	if _, err := telemetry.Read(nil, telemetry.Question{Policy: &p}); err == nil {
		t.Error("Read took the policy")
	}
	l := openLedger(t, "", nil)
	if _, err := l.Answer(telemetry.Question{Target: "never", Simulate: -1}); err == nil {
		t.Error("Answer took the question")
	}
}

// Every comparison with a number that is none is false.
func TestPolicyHasNumbers(t *testing.T) {
	for name, set := range map[string]func(*telemetry.Policy){
		"cadence_factor":    func(p *telemetry.Policy) { p.CadenceFactor = math.NaN() },
		"max_traffic_share": func(p *telemetry.Policy) { p.MaxTrafficShare = math.NaN() },
	} {
		p := telemetry.DefaultPolicy()
		set(&p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
	}
}
