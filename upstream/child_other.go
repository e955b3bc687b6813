//go:build !unix

package upstream

import "os/exec"

// ownGroup does nothing: there are no process groups here.
func ownGroup(*exec.Cmd) {}

// killGroup ends the child. There is no gentle signal here, so it does so when hard only.
func killGroup(cmd *exec.Cmd, hard bool) {
	if hard {
		_ = cmd.Process.Kill()
	}
}
