package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// A process is a program of the suite that listens on a port of 127.0.0.1.
type process struct {
	name string
	port int
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// freePort asks the system for a port that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// start runs args in a process group of its own and returns when it listens on port, at most 20 s later. What it prints goes
// to the file log.
func start(name string, port int, log *os.File, args ...string) (*process, error) {
	p := &process{name: name, port: port, cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { // ends with the process, which stop kills
		p.cmd.Wait()
		close(p.done)
	}()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		select {
		case <-p.done:
			return nil, fmt.Errorf("start %s: %v ended before it listened; see %s", name, p.cmd.ProcessState, log.Name())
		default:
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			return p, c.Close()
		}
	}
	return nil, errors.Join(fmt.Errorf("start %s: it does not listen on %s", name, addr), p.stop())
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the process and its children: SIGTERM, and SIGKILL three seconds later.
func (p *process) stop() error {
	group := -p.pid()
	err := syscall.Kill(group, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	select {
	case <-p.done:
	case <-time.After(3 * time.Second):
		err = errors.Join(err, syscall.Kill(group, syscall.SIGKILL))
		<-p.done
	}
	return err
}
