package upstream

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// A child is a server process and its standard streams. It implements io.ReadWriteCloser.
type child struct {
	o      *Options
	log    *slog.Logger
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	exited chan struct{} // closed when the process has been reaped
	drains sync.WaitGroup
	close  sync.Once
}

// start runs the command in a process group of its own. The error names the program but not its
// arguments.
func start(c Command, o *Options) (*child, error) {
	cmd := exec.Command(c.Path, c.Args...) // #nosec G204 -- the command that the operator gave
	cmd.Dir = c.Dir
	cmd.Env = c.environ()
	ownGroup(cmd)
	var theirs [3]*os.File
	var ours [3]*os.File
	if err := pipes(&theirs, &ours); err != nil {
		closeFiles(theirs[:], ours[:])
		return nil, fmt.Errorf("pipes for %s: %w", filepath.Base(c.Path), err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if err := cmd.Start(); err != nil {
		closeFiles(theirs[:], ours[:])
		return nil, fmt.Errorf("start %s: %w", filepath.Base(c.Path), bare(err))
	}
	closeFiles(theirs[:])
	ch := &child{
		o: o, log: o.Logger.With("pid", cmd.Process.Pid), cmd: cmd,
		stdin: ours[0], stdout: ours[1], exited: make(chan struct{}),
	}
	ch.log.Info("upstream child started")
	ch.drains.Go(func() { ch.drain(ours[2]) }) // until stderr ends, reap sees to that
	ch.drains.Go(func() { ch.reap(ours[2]) })  // until the process has exited, Close sees to that
	return ch, nil
}

// bare strips paths from an error of exec.
func bare(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// pipes makes the three pipes: input, output, error output.
func pipes(theirs, ours *[3]*os.File) (err error) {
	if theirs[0], ours[0], err = os.Pipe(); err != nil {
		return err
	}
	if ours[1], theirs[1], err = os.Pipe(); err != nil {
		return err
	}
	ours[2], theirs[2], err = os.Pipe()
	return err
}

func closeFiles(lists ...[]*os.File) {
	for _, files := range lists {
		for _, f := range files {
			if f != nil {
				_ = f.Close() // nothing was written yet
			}
		}
	}
}

// outputGrace is how long output may still come after the process has exited, from children of its own
// that hold the pipe open.
const outputGrace = 500 * time.Millisecond

// reap waits for the process and makes its output end.
func (ch *child) reap(stderr *os.File) {
	err := ch.cmd.Wait()
	killGroup(ch.cmd, true) // what it left behind
	end := time.Now().Add(outputGrace)
	_ = ch.stdout.SetReadDeadline(end) // closed already, then reading has ended
	_ = stderr.SetReadDeadline(end)
	if err != nil {
		ch.log.Info("upstream child exited", "err", err)
	} else {
		ch.log.Info("upstream child exited")
	}
	close(ch.exited)
}

// Read reads what the child prints.
func (ch *child) Read(p []byte) (int, error) { return ch.stdout.Read(p) }

// Write writes to the child's input.
func (ch *child) Write(p []byte) (int, error) { return ch.stdin.Write(p) }

// Close ends the child: end of input, then SIGTERM, then SIGKILL to its process group, with
// Options.CloseGrace and TermGrace between (2025-11-25 basic/lifecycle, Shutdown). It returns when the
// process has been reaped.
func (ch *child) Close() (err error) {
	ch.close.Do(func() {
		err = ch.stdin.Close()
		if !ch.gone(ch.o.CloseGrace) {
			killGroup(ch.cmd, false)
			if !ch.gone(ch.o.TermGrace) {
				killGroup(ch.cmd, true)
				<-ch.exited
			}
		}
		err = errors.Join(err, ch.stdout.Close())
		ch.drains.Wait()
	})
	return err
}

// gone waits for the exit, d at most.
func (ch *child) gone(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ch.exited:
		return true
	case <-t.C:
		return false
	}
}

// drain reads the error output, so that the child never waits for somebody to do it, and logs the
// beginning of some lines. It says nothing about errors (2025-11-25 basic/transports, stdio).
func (ch *child) drain(stderr *os.File) {
	defer stderr.Close()
	n := &noise{log: ch.log, level: slog.LevelDebug, text: "upstream child wrote to stderr"}
	lines := newLineReader(stderr, stderrLine)
	for {
		line, err := lines.next()
		if long, ok := errors.AsType[*longLine](err); ok {
			line, err = long.head, nil
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, stderr) // whatever is left; the line reader stops at the end only
			return
		}
		n.report("", line)
	}
}

// stderrLine is how long a line of the error output may be before it is cut, in bytes.
const stderrLine = 8 << 10
