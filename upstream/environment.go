package upstream

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// inherited are the variables that a child gets without being told: what programs need to find files, their user and their
// language, and nothing that usually holds a secret. They are those of the official SDKs (TypeScript SDK,
// getDefaultEnvironment) and a few that programs do not start or cannot print without. A * stands for the rest of a name.
var inherited = []string{
	"HOME", "LANG", "LANGUAGE", "LC_*", "LOGNAME", "PATH", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
}

// inheritedWindows are those on Windows besides.
var inheritedWindows = []string{
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES",
	"SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR",
}

// childEnvironment returns the environment of a child whose command has those entries (Command.Env). own is the bridge's.
func childEnvironment(own, entries []string) []string {
	names := inherited
	if runtime.GOOS == "windows" {
		names = slices.Concat(inherited, inheritedWindows)
	}
	var env []string
	for _, name := range names {
		env = append(env, matching(own, name)...)
	}
	for _, e := range entries {
		if strings.Contains(e, "=") {
			env = append(env, e)
			continue
		}
		env = append(env, matching(own, e)...)
	}
	return env // of two with the same name the last one counts (os/exec, Cmd.Env)
}

// matching returns the variables of that name; one with a * at its end is the beginning of names.
func matching(env []string, pattern string) []string {
	var found []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if prefix, many := strings.CutSuffix(pattern, "*"); many && len(name) >= len(prefix) {
			if sameName(name[:len(prefix)], prefix) {
				found = append(found, v)
			}
		} else if sameName(name, pattern) {
			found = append(found, v)
		}
	}
	return found
}

// sameName compares names of variables, of which Windows does not see the case.
func sameName(a, b string) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// environ returns the environment of the command's child.
func (c *Command) environ() []string { return childEnvironment(os.Environ(), c.Env) }
