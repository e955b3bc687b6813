package retire

import "io"

// For tests from outside.
var (
	ParseDocument = func(text []byte) (*State, error) {
		d, err := parseDocument(text)
		if err != nil {
			return nil, err
		}
		return &d.State, nil
	}
	DocumentText = func(s *State) ([]byte, error) { return (&document{State: *s}).text() }
	Equal        = equal
	Lock         = lock
)

// ScanLog returns the records that can be read, and how many lines cannot.
func ScanLog(r io.Reader) (records []Record, broken int, err error) {
	err = scanLog(r, func(l line) {
		if l.record == nil {
			broken++
			return
		}
		records = append(records, *l.record)
	})
	return records, broken, err
}
