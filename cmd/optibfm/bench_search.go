package main

import (
	"fmt"
	"runtime"

	"optibfm/tflite"
)

// searchSection is the planner's search on every backend.
type searchSection struct {
	rows []*timed
	one  *timed // native, one processor
}

func (b *benchmark) openSearch() error {
	n := b.searched()
	query := b.cases.query(n, b.beta())
	search := func(m tflite.Model) func() error {
		return func() error {
			_, _, err := m.Search(b.cases.next(), query.candidates, query.belief)
			return err
		}
	}
	for _, processors := range b.processors() {
		m, err := b.network(processors)
		if err != nil {
			return err
		}
		name := "native, 1 processor"
		if processors > 1 {
			name = fmt.Sprintf("native, %d processors", processors)
		}
		b.search.rows = append(b.search.rows, newTimed(name, search(m)).on(m))
		b.search.one = b.search.rows[0]
	}
	if b.tf != nil {
		name := "TensorFlow " + b.file.Model.TensorFlow.Device
		if threads := b.file.Model.TensorFlow.IntraOpThreads; threads > 0 {
			name += fmt.Sprintf(", %d threads", threads)
		}
		b.search.rows = append(b.search.rows, newTimed(name, search(b.tf)))
	}
	return nil
}

// processors are the numbers of them that the native search is timed with.
func (b *benchmark) processors() []int {
	if b.native() == nil {
		return nil
	}
	return counts(runtime.GOMAXPROCS(0))
}

// counts are 1, 2, 4... and all.
func counts(all int) []int {
	var n []int
	for c := 1; c < all; c *= 2 {
		n = append(n, c)
	}
	return append(n, all)
}

// beta is the configuration's weight of the uncertainty bonus, where it has one.
func (b *benchmark) beta() float64 {
	if v := b.file.Controller.Beta.Value; v > 0 {
		return v
	}
	return 1
}
