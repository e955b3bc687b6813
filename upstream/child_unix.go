//go:build unix

package upstream

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the child the leader of a process group, so that what it starts can be ended with it
// and a signal to the bridge's own group does not reach it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup sends SIGTERM, or SIGKILL when hard, to the child's group. A group that is gone is no error.
func killGroup(cmd *exec.Cmd, hard bool) {
	sig := syscall.SIGTERM
	if hard {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, sig)
}
