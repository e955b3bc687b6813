package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
	yamlnode "go.yaml.in/yaml/v3"

	"github.com/mcp-dualstack/bridge/upstream"
)

// A source holds the merged settings, remembers where each comes from and gathers what is wrong.
type source struct {
	values   *koanf.Koanf
	keys     []string          // every known key
	origins  map[string]string // where a key was set; defaults are not in it
	policy   []byte            // the configuration file, if policyKey is in it
	unknown  []string          // environment variables that are no settings
	problems []error
	faulty   map[string]bool // keys with a problem: one of each is enough
}

// commandKey is the one setting without a flag, beside policyKey, which is a mapping.
const commandKey = "command"

// read merges file, environment and flags. The error is about a file that cannot be read at all.
func read(fs *pflag.FlagSet) (*source, error) {
	s := &source{values: koanf.New("."), origins: map[string]string{}, faulty: map[string]bool{}, keys: []string{commandKey, policyKey}}
	fs.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"config", "output", "help"}, f.Name) {
			s.keys = append(s.keys, keyOf(f.Name))
		}
	})
	path, _ := fs.GetString("config") // no flag of that name: no file
	if path == "" {
		path = os.Getenv(envOf("config"))
	}
	if path != "" {
		if err := s.readFile(path); err != nil {
			return nil, err
		}
	}
	return s, errors.Join(s.readEnvironment(), s.readFlags(fs))
}

func (s *source) readFile(path string) error {
	text, err := os.ReadFile(path) // #nosec G304 G703 -- the file that --config names
	if err != nil {
		return err
	}
	var doc yamlnode.Node
	if err := yamlnode.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(doc.Content) == 0 {
		return nil // an empty file
	}
	top := doc.Content[0]
	if top.Kind != yamlnode.MappingNode {
		return fmt.Errorf("%s:%d: settings are lines such as listen: 127.0.0.1:8420", path, top.Line)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, place := top.Content[i].Value, fmt.Sprintf("%s:%d", path, top.Content[i].Line)
		if !slices.Contains(s.keys, key) {
			s.problems = append(s.problems, fmt.Errorf("%s: %s is no setting%s", place, key, s.similar(key)))
			continue
		}
		s.origins[key] = place
		if key == policyKey {
			s.policy = text
		}
	}
	if err := s.values.Load(file.Provider(path), yaml.Parser()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// similar suggests the key that was probably meant.
func (s *source) similar(key string) string {
	key = strings.ToLower(keyOf(key))
	for _, k := range s.keys {
		if k == key || k == strings.TrimSuffix(key, "s") || strings.ReplaceAll(k, "_", "") == strings.ReplaceAll(key, "_", "") {
			return "; did you mean " + k + "?"
		}
	}
	return ""
}

// readEnvironment reads BRIDGE_* variables. Unknown ones are remembered and are no problem: orchestrators
// set such names by themselves for a service called bridge.
func (s *source) readEnvironment() error {
	return s.values.Load(env.Provider(".", env.Opt{
		Prefix: envPrefix,
		TransformFunc: func(name, value string) (string, any) {
			key := strings.ToLower(strings.TrimPrefix(name, envPrefix))
			switch {
			case key == "config":
				return "", nil
			case key == commandKey || key == policyKey || !slices.Contains(s.keys, key):
				s.unknown = append(s.unknown, name)
				return "", nil
			}
			s.origins[key] = name
			return key, value
		},
	}), nil)
}

func (s *source) readFlags(fs *pflag.FlagSet) error {
	fs.Visit(func(f *pflag.Flag) {
		s.origins[keyOf(f.Name)] = "--" + f.Name
	})
	return s.values.Load(posflag.ProviderWithFlag(fs, ".", s.values, func(f *pflag.Flag) (string, any) {
		return keyOf(f.Name), posflag.FlagVal(fs, f)
	}), nil)
}

// problem adds a problem with the value of key, with the place it comes from.
func (s *source) problem(key, format string, args ...any) {
	if s.faulty[key] {
		return
	}
	s.faulty[key] = true
	s.problems = append(s.problems, fmt.Errorf("%s: %s%w", s.origin(key), s.named(key), fmt.Errorf(format, args...)))
}

// named returns the key where the place does not say it already.
func (s *source) named(key string) string {
	if o := s.origins[key]; o == "--"+flagOf(key) || o == envOf(key) {
		return ""
	}
	return key + ": "
}

func (s *source) origin(key string) string {
	if o := s.origins[key]; o != "" {
		return o
	}
	return "default"
}

// text returns a scalar as text.
func (s *source) text(key string) string {
	switch v := s.values.Get(key).(type) {
	case nil:
		return ""
	case string:
		return v
	case []any, []string, map[string]any:
		s.problem(key, "must be one value")
		return ""
	default:
		return fmt.Sprint(v)
	}
}

// oneOf returns a text that is one of the choices.
func (s *source) oneOf(key string, choices ...string) string {
	v := s.text(key)
	if !slices.Contains(choices, v) {
		s.problem(key, "%q is none of %s", v, strings.Join(choices, ", "))
	}
	return v
}

func (s *source) bool(key string) bool {
	switch v := s.text(key); strings.ToLower(v) {
	case "true", "on", "yes", "1":
		return true
	case "false", "off", "no", "0", "":
		return false
	default:
		s.problem(key, "%q is neither true nor false", v)
		return false
	}
}

// duration returns a positive time. A number without a unit is refused: nobody could tell seconds from
// nanoseconds.
func (s *source) duration(key string) time.Duration {
	v := s.text(key)
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		s.problem(key, "%q is not a time such as 15s or 2m", v)
	case d <= 0:
		s.problem(key, "%s must be more than nothing", v)
	}
	return d
}

// optional returns a time that may be off.
func (s *source) optional(key string) time.Duration {
	switch s.text(key) {
	case off, "0", "0s":
		return 0
	}
	return s.duration(key)
}

// number returns a whole number from 1 up.
func (s *source) number(key string) int {
	v := s.text(key)
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		s.problem(key, "%q is not a whole number from 1 up", v)
	}
	return n
}

// list returns a list; in the environment and in a single text its elements are separated by commas.
func (s *source) list(key string) []string {
	var out []string
	for _, word := range s.words(key) {
		for item := range strings.SplitSeq(word, ",") {
			if item = strings.TrimSpace(item); item != "" {
				out = append(out, item)
			}
		}
	}
	return out
}

// words returns the elements of a list as they are.
func (s *source) words(key string) []string {
	switch v := s.values.Get(key).(type) {
	case nil:
		return nil
	case []string:
		return v
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			out[i] = fmt.Sprint(e)
		}
		return out
	case map[string]any:
		s.problem(key, "must be a list")
		return nil
	default:
		return []string{fmt.Sprint(v)}
	}
}

// show returns the value of a setting as text for people, without what may be secret.
func (s *source) show(key string) string {
	if key == "upstream_header" {
		var names []string
		for _, line := range s.words(key) {
			name, _, _ := strings.Cut(line, ":")
			names = append(names, strings.TrimSpace(name))
		}
		return strings.Join(names, ",")
	}
	if key == keyOf(childEnvFlag) {
		return variableNames(s.words(key))
	}
	if key == policyKey {
		if s.policy == nil {
			return ""
		}
		return "(a policy)"
	}
	if key == commandKey {
		// Arguments may be secrets.
		if words := s.words(key); len(words) > 0 {
			return words[0]
		}
		return ""
	}
	if key == "upstream" && s.text(key) != "" {
		return upstream.Shown(s.text(key)) // its query and user may be secrets
	}
	return strings.Join(s.words(key), ",")
}
