package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// An Event is one server-sent event, or a comment on its own.
type Event struct {
	Name    string
	ID      string
	Data    string
	Retry   string
	Comment bool // nothing but comment lines
}

// Message reads the data as a JSON-RPC message.
func (e Event) Message() (Message, error) {
	var m Message
	if err := json.Unmarshal([]byte(e.Data), &m); err != nil {
		return m, fmt.Errorf("event %q %q: %w", e.Name, e.Data, err)
	}
	return m, nil
}

// An EventReader reads server-sent events (WHATWG HTML, 9.2).
type EventReader struct{ lines *bufio.Scanner }

// NewEventReader returns a reader of r.
func NewEventReader(r io.Reader) *EventReader {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	return &EventReader{lines: s}
}

// Next returns the next block of lines, whether or not it has data, or io.EOF. A block that is cut off is
// not returned.
func (r *EventReader) Next() (Event, error) {
	var e Event
	var data []string
	var fields, comments int
	for r.lines.Scan() {
		line := r.lines.Text()
		if line == "" {
			if fields == 0 && comments == 0 {
				continue
			}
			e.Data, e.Comment = strings.Join(data, "\n"), fields == 0
			return e, nil
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		fields++
		switch name {
		case "event":
			e.Name = value
		case "id":
			e.ID = value
		case "retry":
			e.Retry = value
		case "data":
			data = append(data, value)
		case "":
			fields--
			comments++
		}
	}
	if err := r.lines.Err(); err != nil {
		return Event{}, err
	}
	return Event{}, io.EOF
}
