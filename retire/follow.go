package retire

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is the time between a notice of the file system and the look at the file: who writes it by hand is not done yet.
const settle = 50 * time.Millisecond

// follow takes over what others write to the document, until ctx ends.
func (k *Keeper) follow(ctx context.Context) {
	w := k.watch()
	var notices chan fsnotify.Event
	var faults chan error
	if w != nil {
		notices, faults = w.Events, w.Errors
		defer func() { _ = w.Close() }() // it was only read
	}
	poll := time.NewTicker(k.o.Poll)
	defer poll.Stop()
	var seen sight
	for {
		select {
		case n := <-notices:
			if filepath.Base(n.Name) != StateFile {
				continue
			}
			select {
			case <-time.After(settle):
			case <-ctx.Done():
			}
		case <-faults: // a notice was lost
		case <-poll.C:
		case <-ctx.Done():
			return
		}
		seen = k.look(ctx, seen)
	}
}

// watch asks the file system for notices about the folder, since the file itself is replaced with each change. Nil: it gives none.
func (k *Keeper) watch() *fsnotify.Watcher {
	if k.o.PollOnly {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(k.dir); err == nil {
			return w
		}
		err = errors.Join(err, w.Close())
	}
	k.o.Logger.Warn("the file system gives no notices; the retirement state is polled", "poll", k.o.Poll.String(), "err", err)
	return nil
}

// A sight is what the state file was when it was looked at last.
type sight struct {
	text    []byte
	missing bool
	trouble string // the last error
}

// look takes the document over if it is not what was seen.
func (k *Keeper) look(ctx context.Context, seen sight) sight {
	text, err := readDocument(k.dir)
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil || missing {
		if missing == seen.missing && bytes.Equal(text, seen.text) && seen.trouble == "" {
			return seen
		}
		_, err = k.refresh(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return sight{text: text, missing: missing}
	}
	k.setDamage(err)
	seen.trouble = err.Error()
	return seen
}
