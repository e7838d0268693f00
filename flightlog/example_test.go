package flightlog_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/rewardsrc"
)

// Write ticks and a label, then read the log.
func Example() {
	dir, err := os.MkdirTemp("", "flightlog")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "run.mcap")

	shape := controller.Shape{Obs: 3, Action: 1, Latent: 4}
	w, err := flightlog.Create(path, flightlog.Metadata{
		Program: "example",
		Robot:   hal.Spec{Name: "pendulum", Period: 20 * time.Millisecond},
		Shape:   shape,
		Control: controller.DefaultConfig(),
	}, flightlog.Options{})
	if err != nil {
		log.Fatal(err)
	}
	tick := controller.NewTick(shape)
	for i := range uint64(3) {
		tick.Index, tick.Elapsed = i, min(i, 1)
		if err := w.WriteTick(tick); err != nil {
			log.Print(err) // a full disk does not stop the run
		}
	}
	// If WriteLabel returns nil, the label is on disk and may be acknowledged.
	if err := w.WriteLabel(rewardsrc.Label{ID: 1, Tick: 2, Value: 1, Kind: rewardsrc.Value}); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	r, err := flightlog.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for record, err := range r.Records() {
		switch {
		case err != nil:
			log.Fatal(err)
		case record.Tick != nil:
			fmt.Println("tick", record.Tick.Index)
		case record.Label != nil:
			fmt.Println("label", record.Label.ID, record.Label.Value)
		}
	}
	// Output:
	// tick 0
	// tick 1
	// tick 2
	// label 1 1
}
