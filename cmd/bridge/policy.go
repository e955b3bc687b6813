package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/mcp-dualstack/bridge/telemetry"
)

// policyKey is the key of a policy in a YAML file, whose other keys are somebody else's (retirement.md 5).
const policyKey = "retirement"

// readPolicy returns the default policy with what the mapping "retirement" of a YAML file says. An empty name is no file. The error names
// everything that is wrong with the policy.
func readPolicy(file string) (*telemetry.Policy, error) {
	p := telemetry.DefaultPolicy()
	if file == "" {
		return &p, nil
	}
	text, err := os.ReadFile(file) // #nosec G304 -- the file that a flag names
	if err != nil {
		return nil, err
	}
	if err := decodePolicy(text, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &p, nil
}

func decodePolicy(text []byte, p *telemetry.Policy) error {
	var whole map[string]yaml.Node
	if err := yaml.Unmarshal(text, &whole); err != nil {
		return err
	}
	node, ok := whole[policyKey]
	if !ok {
		return fmt.Errorf("there is no %q in it", policyKey)
	}
	// A node by itself cannot be decoded with a complaint about unknown keys.
	part, err := yaml.Marshal(&node)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(part))
	d.KnownFields(true)
	if err := d.Decode(p); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", policyKey, err)
	}
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w", policyKey, err)
	}
	return nil
}
