package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	bridge "github.com/mcp-dualstack/bridge"
)

// Defaults of suspended calls, those of bridge.SuspendOptions.
const (
	defaultMaxSuspended             = 256
	defaultMaxSuspendedPerPrincipal = 32
	defaultSuspendedLifetime        = 30 * time.Minute
	defaultAnswerTimeout            = 10 * time.Minute
)

// addTranslation adds the flags of what happens between clients and servers of different eras.
func addTranslation(fs *pflag.FlagSet) {
	fs.String("state-key-file", "", "file of secrets that seal requestState, one a line, each 32 bytes or more: the first seals, all open (none: a random one)")
	fs.Int("max-suspended", defaultMaxSuspended, "calls of 2026-07-28 clients that wait for an answer of their user")
	fs.Int("max-suspended-per-principal", defaultMaxSuspendedPerPrincipal, "of them of one caller")
	fs.Duration("suspended-lifetime", defaultSuspendedLifetime, "time that a call which waits for answers may take in all")
	fs.Duration("answer-timeout", defaultAnswerTimeout, "time for a 2026-07-28 client to come back with an answer")
	fs.Int("max-rounds", 0, "rounds of questions in one call (0: 10 for older clients, 16 for those of 2026-07-28)")
	fs.StringSlice("rerun-tool", nil, "tool that may be run again from the start in each round of questions (repeatable)")
	fs.StringArray("cache", nil, "how long 2026-07-28 clients may keep results, as METHOD=TIME or METHOD=TIME,public (repeatable)")
	fs.StringArray("static-root", nil, "root URI told to a server that asks for roots while no call is in flight (repeatable)")
}

// translation reads them into o.
func (s *source) translation(o *bridge.Options) {
	rounds := s.count("max_rounds")
	o.Drive.MaxRounds = rounds
	o.Translation = bridge.SuspendOptions{
		Secrets:         s.secrets("state_key_file"),
		MaxTotal:        s.number("max_suspended"),
		MaxPerPrincipal: s.number("max_suspended_per_principal"),
		MaxRounds:       rounds,
		Lifetime:        s.duration("suspended_lifetime"),
		TTL:             s.duration("answer_timeout"),
		Journal:         s.list("rerun_tool"),
	}
	o.Cache = s.cache("cache")
	o.Roots = s.roots("static_root")
}

// secrets returns the lines of a file that are neither empty nor comments (#). No message has any of them.
func (s *source) secrets(key string) [][]byte {
	path := s.text(key)
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path) // #nosec G304 -- a file that a flag names
	if err != nil {
		s.problem(key, "%w", err)
		return nil
	}
	var all [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			all = append(all, line)
		}
	}
	if all == nil {
		s.problem(key, "%s has no secret in it; write one line of 32 characters or more, such as of: openssl rand -base64 32", path)
	}
	return all
}

// cache reads lines such as tools/list=5m,public.
func (s *source) cache(key string) map[string]bridge.Cache {
	all := map[string]bridge.Cache{}
	for _, line := range s.words(key) {
		method, rest, ok := strings.Cut(line, "=")
		text, scope, scoped := strings.Cut(rest, ",")
		ttl, err := time.ParseDuration(strings.TrimSpace(text))
		scope = strings.TrimSpace(scope)
		if !ok || err != nil || scoped && scope != "public" && scope != "private" {
			s.problem(key, "%q is not such as tools/list=5m or tools/list=5m,public", line)
			continue
		}
		all[strings.TrimSpace(method)] = bridge.Cache{TTL: ttl, Public: scope == "public"}
	}
	return all
}

// roots returns a raw array of Root objects (2025-11-25 schema), nil for none.
func (s *source) roots(key string) []byte {
	type root struct {
		URI string `json:"uri"`
	}
	var all []root
	for _, uri := range s.words(key) {
		if u, err := url.Parse(uri); err != nil || u.Scheme != "file" {
			s.problem(key, "%q is not a URI such as file:///srv/data", uri) // the schema allows no others yet
			continue
		}
		all = append(all, root{uri})
	}
	if all == nil {
		return nil
	}
	raw, err := json.Marshal(all)
	if err != nil {
		panic("bridge: URIs cannot be written as JSON: " + err.Error())
	}
	return raw
}
