package streamable

// Held returns what the front keeps: sessions in the table, streams that can be resumed, and the bytes
// in their logs and in those of the standing streams, with overhead.
func (f *Front) Held() (sessions, streams, bytes int) {
	for _, s := range f.all() {
		sessions++
		bytes += s.standing.stream.size()
		s.mu.Lock()
		streams += len(s.streams)
		for _, st := range s.streams {
			bytes += st.size()
		}
		s.mu.Unlock()
	}
	return sessions, streams, bytes
}
