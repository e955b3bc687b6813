package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Read reports what ledger files hold together, in any order. It changes nothing, and works while servers have a file open
// and after they were killed. The errors are those of q, of the file system, ErrNewer and ErrForeign; the text of each says which file
// and what to do.
func Read(files []string, q Question) (Report, error) {
	if err := q.Check(); err != nil {
		return Report{}, err
	}
	var ledgers []*content
	var errs []error
	for _, file := range files {
		c, err := readFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("read ledger %s: %w", file, err))
			continue
		}
		ledgers = append(ledgers, c)
	}
	if err := errors.Join(errs...); err != nil {
		return Report{}, err
	}
	return newReport(ledgers, q, false), nil
}

// present reports what is wrong with a file before it is opened.
func present(file string) error {
	switch st, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; a server writes it when it runs with the same state folder", fs.ErrNotExist)
	case err != nil:
		return err
	case st.IsDir():
		return errors.New("it is a folder; name the file in it")
	case st.Size() == 0:
		return errors.New("it is empty; no server has written to it yet")
	}
	return nil
}

func readFile(file string) (*content, error) {
	if err := present(file); err != nil {
		return nil, err
	}
	c, err := readMode(file, "ro")
	if code := resultCode(err); code == codeReadOnly || code == codeCantOpen {
		// After a kill the journal has to be recovered, which a reader without the right to write cannot.
		c, err = readMode(file, "rw")
	}
	if damaged(err) {
		return nil, fmt.Errorf("it is damaged: %w; the next server that starts on it moves it aside", err)
	}
	return c, err
}

func readMode(file, mode string) (*content, error) {
	db, err := dial(file, mode, DefaultBusyTimeout)
	if err != nil {
		return nil, err
	}
	c, err := readContent(db, unlimited)
	return c, errors.Join(err, db.Close())
}
