package retire

import (
	"context"
	"slices"
	"sync"
)

// MaxRecords bounds the records of a keeper without a folder; older ones are forgotten.
const MaxRecords = 1024

// memory is the store of a keeper without a folder.
type memory struct {
	mu      sync.Mutex
	records []Record
}

func (m *memory) load(known *State) (*found, error) {
	if known == nil {
		known = &State{Stage: Open}
	}
	return &found{current: known, latest: known.Version}, nil
}

func (m *memory) begin(_ context.Context, known *State) (*transaction, error) {
	f, err := m.load(known)
	return &transaction{found: *f, write: m.write, end: func() {}}, err
}

func (m *memory) write(_ *State, r *Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.records) == MaxRecords {
		m.records = slices.Delete(m.records, 0, 1)
	}
	m.records = append(m.records, *r)
	return nil
}

func (m *memory) history() ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.records), nil
}
