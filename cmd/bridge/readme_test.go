package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	bridge "github.com/mcp-dualstack/bridge"
)

// readme returns the README and the folder that it is in.
func readme(t *testing.T) (text, dir string) {
	t.Helper()
	dir = filepath.Join("..", "..")
	b, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), dir
}

// TestReadmeNamesEveryFlag holds the README against --help: every flag of serve is in it, with the default that it has, and none that no
// command has.
func TestReadmeNamesEveryFlag(t *testing.T) {
	text, _ := readme(t)
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile(`--([a-z][a-z-]*)`).FindAllStringSubmatch(text, -1) {
		named[m[1]] = true
	}
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if !named[f.Name] {
			t.Errorf("README.md does not name --%s of serve", f.Name)
		}
	})
	known := map[string]bool{"help": true}
	for _, c := range commands(rootCommand()) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	for name := range named {
		if !known[name] {
			t.Errorf("README.md names --%s, which no command has", name)
		}
	}
	if !bridge.LegacyBuilt {
		return // --legacy has another default
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| (?:`([^`]+)` )?\\|").FindAllStringSubmatch(text, -1) {
		if f := serveCommand().Flags().Lookup(m[1]); f != nil && m[1] != "state" && strings.Trim(f.DefValue, "[]") != m[2] { // that of state is a place, in words
			t.Errorf("README.md gives --%s the default %q, it is %q", m[1], m[2], f.DefValue)
		}
	}
}

// TestReadmeNamesEveryCommand also reads the commands of the indented lines as the program would.
func TestReadmeNamesEveryCommand(t *testing.T) {
	text, _ := readme(t)
	root := rootCommand()
	for _, c := range commands(root) {
		if c == root || c.Name() == "help" {
			continue
		}
		table := regexp.MustCompile("(?m)^\\| `bridge " + strings.Fields(c.CommandPath())[1] + "\\b.*\\|.*\\|$").FindString(text)
		if !strings.Contains(strings.Split(table+"||", "|")[1], c.Name()) {
			t.Errorf("README.md does not name %s in the table of commands", c.CommandPath())
		}
	}
	lines := regexp.MustCompile(`(?m)^    bin/bridge (.*)$`).FindAllStringSubmatch(text, -1)
	if len(lines) == 0 {
		t.Error("README.md shows no commands")
	}
	for _, m := range lines {
		words := strings.Fields(strings.ReplaceAll(m[1], `"`, ""))
		found, rest, err := root.Find(words)
		if err != nil || found == root {
			t.Errorf("README.md shows bridge %s, which is no command: %v", m[1], err)
			continue
		}
		if err := found.ParseFlags(rest); err != nil {
			t.Errorf("README.md shows bridge %s: %v", m[1], err)
		}
	}
}

func TestReadmeLinks(t *testing.T) {
	text, dir := readme(t)
	links := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(text, -1)
	for _, m := range links {
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			t.Errorf("README.md links to %s: %v", m[1], err)
		}
	}
	for _, page := range []string{"migration", "translation", "streams", "telemetry", "security", "performance", "reports"} {
		if !slices.ContainsFunc(links, func(m []string) bool { return m[1] == "docs/"+page+".md" }) {
			t.Errorf("README.md has no link to docs/%s.md", page)
		}
	}
}

// commands returns c and every command below it.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}
