package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mcp-dualstack/bridge/upstream"
)

// A surroundings is where and with which variables the command of the server runs.
type surroundings struct {
	dir string
	env []string // as upstream.Command.Env; values may be secrets
}

const (
	childDirFlag = "child-dir"
	childEnvFlag = "child-env"
)

// addChild adds the flags of a server that is a command.
func addChild(fs *pflag.FlagSet) {
	fs.String(childDirFlag, "", "folder that the command runs in; a relative path of the command is relative to it")
	fs.StringArray(childEnvFlag, nil, "variable for the command besides PATH, HOME, the locale and such: NAME=VALUE, NAME to pass it on, or a beginning such as AWS_* (repeatable; * for all)")
}

// command returns the command that words are.
func (s surroundings) command(words []string) upstream.Command {
	return upstream.Command{Path: words[0], Args: words[1:], Dir: s.dir, Env: s.env}
}

// startable returns why a program cannot be started in dir, as far as that shows.
func startable(path, dir string) error {
	if dir != "" && strings.ContainsRune(path, filepath.Separator) && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	_, err := exec.LookPath(path)
	return err
}

// checkDir returns what is wrong with the folder.
func (s surroundings) checkDir() error {
	if s.dir == "" {
		return nil
	}
	info, err := os.Stat(s.dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder", s.dir)
	}
	return nil
}

// checkEnv returns what is wrong with the variables. The error shows no values.
func (s surroundings) checkEnv() error {
	for _, e := range s.env {
		name, _, set := strings.Cut(e, "=")
		switch {
		case name == "":
			return errors.New("a variable is written as NAME=VALUE, or as NAME to pass it on")
		case strings.ContainsAny(e, "\x00"):
			return fmt.Errorf("%s holds a zero byte", name)
		case set && strings.Contains(name, "*"), strings.Contains(strings.TrimSuffix(name, "*"), "*"):
			return fmt.Errorf("%s: a * stands at the end of a name that is passed on, and nowhere else", name)
		}
	}
	return nil
}

// surroundings returns where the server's command runs.
func (s *source) surroundings() surroundings {
	x := surroundings{dir: s.text(keyOf(childDirFlag)), env: s.words(keyOf(childEnvFlag))}
	if err := x.checkDir(); err != nil {
		s.problem(keyOf(childDirFlag), "%w", err)
	}
	if err := x.checkEnv(); err != nil {
		s.problem(keyOf(childEnvFlag), "%w", err)
	}
	return x
}

// checkChild refuses what is for a command where there is none.
func (s *source) checkChild(c *config) {
	if len(c.command) > 0 {
		return
	}
	for key, set := range map[string]bool{keyOf(childDirFlag): c.child.dir != "", keyOf(childEnvFlag): len(c.child.env) > 0} {
		if set {
			s.problem(key, "there is no command that it is for; a command stands after --")
		}
	}
}

// variableNames returns the names of variables, which may be shown, of their values, which may not.
func variableNames(env []string) string {
	names := make([]string, 0, len(env))
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	return strings.Join(names, ",")
}
