package telemetry

import (
	"cmp"
	"database/sql"
	"slices"
	"time"
)

// A DayTotal is what all clients did on a day, over one transport in one revision. Sessions are conversations of every kind, requests
// of stateless clients among them.
type DayTotal struct {
	Day       time.Time `json:"day"` // its beginning, UTC
	Transport string    `json:"transport"`
	Revision  string    `json:"revision"` // negotiated; may be empty for conversations refused before one was agreed
	Sessions  int64     `json:"sessions"`
	Calls     int64     `json:"calls"`
	Errors    int64     `json:"errors"`
}

// Days returns what was done on the last n days, today among them, the oldest first; days without use are left out. The errors are those
// of Report.
func (l *Ledger) Days(n int) ([]DayTotal, error) {
	c, err := l.content()
	if err != nil {
		return nil, err
	}
	first := l.now()/dayMillis - int64(n) + 1
	out := []DayTotal{}
	for k, t := range c.totals {
		if k.day >= first {
			out = append(out, DayTotal{moment(k.day * dayMillis), k.transport, k.revision, t.sessions, t.calls, t.errors})
		}
	}
	slices.SortFunc(out, func(a, b DayTotal) int {
		return cmp.Or(a.Day.Compare(b.Day), byTransport(a.Transport, b.Transport), cmp.Compare(a.Revision, b.Revision))
	})
	return out, nil
}

// A totalOf names a day of one transport and revision.
type totalOf struct {
	dayOf
	revision string
}

// addRow adds what a row counted to the day on which it was used last, which may be before the last flush: calls take their time.
func (c *content) addRow(k key, n Counts, day int64) {
	c.addTotal(totalOf{dayOf{k.transport, day}, k.negotiated},
		dayCounts{n.Sessions + n.Uses + n.Reopened, n.Calls, n.Errors, n.Refusals})
}

func (c *content) addTotal(k totalOf, n dayCounts) { c.totals[k] = c.totals[k].plus(n) }

const addTotalSQL = `INSERT INTO totals (transport, revision, day, sessions, calls, errors, refusals) VALUES (?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT DO UPDATE SET sessions = sessions + excluded.sessions, calls = calls + excluded.calls,
		errors = errors + excluded.errors, refusals = refusals + excluded.refusals`

func addTotals(tx *sql.Tx, totals map[totalOf]dayCounts) error {
	for k, n := range totals {
		if _, err := tx.Exec(addTotalSQL, k.transport, k.revision, k.day, n.sessions, n.calls, n.errors, n.refusals); err != nil {
			return err
		}
	}
	return nil
}

func readTotals(tx *sql.Tx, c *content) error {
	return each(tx, "SELECT transport, revision, day, sessions, calls, errors, refusals FROM totals", func(rows *sql.Rows) error {
		var k totalOf
		var n dayCounts
		err := rows.Scan(&k.transport, &k.revision, &k.day, &n.sessions, &n.calls, &n.errors, &n.refusals)
		c.addTotal(k, n)
		return err
	})
}
