package shm

import "sync/atomic"

// Word returns the atomic cell with the given name, on a separate cache line. All
// goroutines of both processes may use it. It starts at 0. Check its value: the
// peer can write any value.
func (s *Segment) Word(name string) (*atomic.Uint64, error) {
	p, err := s.find(name, KindWord)
	if err != nil {
		return nil, err
	}
	return word(s.mem, p.offset), nil
}
