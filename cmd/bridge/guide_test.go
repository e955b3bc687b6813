//go:build !nolegacy

package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the checked blocks of docs/migration.md")

// A guide is docs/migration.md. What stands indented below a line "<!-- checked: NAME -->" is what the commands and the wire print in the
// story, to the letter.
type guide struct {
	file   string
	blocks map[string]string // as they stand in the file, without the indentation
	shown  map[string]string // by the story
	order  []string          // of shown
}

var checkedBlock = regexp.MustCompile(`(?m)^<!-- checked: (\S+) -->\n\n((?: {4}.*\n|\n)*)`)

func readGuide(t *testing.T) *guide {
	t.Helper()
	file, err := filepath.Abs("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := &guide{file: file, blocks: map[string]string{}, shown: map[string]string{}}
	for _, m := range checkedBlock.FindAllStringSubmatch(string(text), -1) {
		if _, twice := g.blocks[m[1]]; twice {
			t.Errorf("the block %s is there twice", m[1])
		}
		g.blocks[m[1]] = outdented(m[2])
	}
	return g
}

// show adds text to a block, with an empty line before what comes second.
func (g *guide) show(name, text string) {
	text = strings.Trim(text, "\n") + "\n"
	if before, ok := g.shown[name]; ok {
		g.shown[name] = before + "\n" + text
		return
	}
	g.shown[name] = text
	g.order = append(g.order, name)
}

// compare fails the test where the file does not have what was shown, or rewrites the file.
func (g *guide) compare(t *testing.T) {
	t.Helper()
	for name := range g.blocks {
		if _, ok := g.shown[name]; !ok {
			t.Errorf("docs/migration.md has a block %s, and the story shows none", name)
		}
	}
	for _, name := range g.order {
		if _, ok := g.blocks[name]; !ok {
			t.Errorf("docs/migration.md has no block %s; the story shows\n%s", name, g.shown[name])
		}
	}
	if *update {
		g.rewrite(t)
		return
	}
	for _, name := range g.order {
		if diff := cmp.Diff(strings.Split(g.blocks[name], "\n"), strings.Split(g.shown[name], "\n")); diff != "" {
			t.Errorf("block %s of docs/migration.md: -guide +shown (go test ./cmd/bridge -run TestGuide -update)\n%s", name, diff)
		}
	}
}

func (g *guide) rewrite(t *testing.T) {
	t.Helper()
	old, err := os.ReadFile(g.file)
	if err != nil {
		t.Fatal(err)
	}
	text := checkedBlock.ReplaceAllFunc(old, func(whole []byte) []byte {
		m := checkedBlock.FindSubmatch(whole)
		shown, ok := g.shown[string(m[1])]
		if !ok {
			return whole
		}
		return []byte("<!-- checked: " + string(m[1]) + " -->\n\n" + indented(shown) + "\n")
	})
	if !bytes.Equal(old, text) {
		if err := os.WriteFile(g.file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString("    ")
		}
		b.WriteString(line)
	}
	return b.String()
}

func outdented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		b.WriteString(strings.TrimPrefix(line, "    "))
	}
	return b.String()
}

// The story of docs/migration.md happens in fake time, before a real bridge in memory, with real files and the real commands, and what
// the guide shows is what they print.
func TestGuide(t *testing.T) {
	home := isolate(t)
	g := readGuide(t)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("bridge.yaml", []byte(g.blocks["policy"]), 0o600); err != nil {
		t.Fatal(err)
	}
	g.show("policy", g.blocks["policy"]) // it is the file that the commands read
	// What waits for signals is one goroutine for the whole program, which must not be of the bubble.
	command(t, "", "retire", "show").want(t, exitOK, "stage open", "")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, g, filepath.Join(home, "bridge"))
		w.story()
		w.close()
	})
	g.compare(t)
}

// Every command that the text of the guide names is one, with flags that there are.
func TestGuideCommands(t *testing.T) {
	isolate(t)
	text, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile("`bridge ([^`]+)`").FindAllSubmatch(text, -1)
	if len(lines) < 20 {
		t.Fatalf("got %d commands", len(lines))
	}
	for _, m := range lines {
		words := shellWords(strings.Join(strings.Fields(string(m[1])), " "))
		cmd, rest, err := rootCommand().Find(words)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil && cmd.Args != nil && cmd.Flags().NArg() > 0 {
			err = cmd.Args(cmd, cmd.Flags().Args())
		}
		if err != nil {
			t.Errorf("bridge %s: %v", m[1], err)
		}
	}
}
