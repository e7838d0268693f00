// Readlog reads a log of optibfm: it counts ticks and labels and prints the mean lateness of the
// control loop.
//
//	optibfm run --plain --set run.duration_s=5 --set log.dir=logs
//	go run ./examples/readlog logs/*.mcap
//
// A log that a crash cut off is read up to the cut. Damage is an error.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: readlog LOG...")
	}
	for _, path := range os.Args[1:] {
		s, err := read(path)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n  %d ticks, %d skipped; %d labels given, %d applied; mean lateness %v\n",
			path, s.ticks, s.skipped, s.given, s.applied, s.lateness())
	}
}

type summary struct {
	ticks, skipped uint64
	given, applied int           // labels of the operator; those that the belief took
	late           time.Duration // sum over the ticks
}

// lateness is the mean time from a tick's deadline to its start. In lockstep it is 0.
func (s summary) lateness() time.Duration {
	if s.ticks == 0 {
		return 0
	}
	return s.late / time.Duration(s.ticks)
}

func read(path string) (s summary, err error) {
	r, err := flightlog.Open(path)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for record, err := range r.Records() {
		switch {
		case err != nil:
			return s, err
		case record.Label != nil:
			s.given++
		case record.Tick != nil:
			s.add(record.Tick)
		}
	}
	return s, nil
}

func (s *summary) add(t *controller.Tick) {
	s.ticks++
	s.late += time.Duration(t.Wake - t.Deadline)
	if t.Elapsed > 1 {
		s.skipped += t.Elapsed - 1
	}
	for _, label := range t.Labels[:t.NumLabels] {
		if label.Outcome == controller.Applied {
			s.applied++
		}
	}
}
