package shm

import "sync/atomic"

// Word returns the atomic cell with the given name, on a separate cache line. Any
// number of goroutines of both processes may use it. It starts at 0. The peer can
// write any value to it.
func (s *Segment) Word(name string) (*atomic.Uint64, error) {
	p, err := s.find(name, KindWord)
	if err != nil {
		return nil, err
	}
	return word(s.mem, p.offset), nil
}
