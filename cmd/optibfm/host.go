package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/shm"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/console"
	"optibfm/rewardsrc/keyboard"
	"optibfm/tflite"
)

// Descriptors that the host process inherits.
const (
	fdSegment = 3 + iota
	fdOrders
	fdLifeline // a pipe whose other end dies with the control process
)

// orders is what the control process tells the host at the start.
type orders struct {
	YAML      []byte // the whole configuration
	ModelHash string // of the bundle that the control process uses
	Spec      hal.Spec
	Posture   string
	Missing   []string // of the posture: what was not granted
	Plain     bool     // no full screen
	JSON      bool     // the summary as JSON
}

// newHostCommand is the host process. People do not call it: `run` starts it.
func newHostCommand() *cobra.Command {
	return &cobra.Command{
		Use: "host", Hidden: true, Args: cobra.NoArgs,
		Short: "the host process of run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The control process ends the run, not the terminal.
			signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			h, err := openHost(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if err := h.run(); err != nil {
				return err
			}
			return summarise(cmd.Context(), cmd.OutOrStdout(), h.session, h.outcome(), h.orders.JSON)
		},
	}
}

// host is the process that has everything but the robot: planner, log,
// operator and screen.
type host struct {
	orders   orders
	session  *session
	segment  *shm.Segment
	link     *hostLink
	lifeline *os.File
	display  display
	desk     *desk
	watcher  rewardsrc.Watcher // may be nil
	log      *flightlog.Writer // may be nil
	logPath  string
	tally    *tally
	planning *planning
	logErr   error // the first failure of the log
}

func openHost(out io.Writer) (*host, error) {
	h := &host{lifeline: os.NewFile(fdLifeline, "lifeline")}
	if err := h.readOrders(); err != nil {
		return nil, fmt.Errorf("host: orders: %w: this command is started by `optibfm run`", err)
	}
	var err error
	if h.session.bundle, err = openBundle(h.session.file.Model); err != nil {
		return nil, err
	}
	if h.session.bundle.Hash != h.orders.ModelHash {
		return nil, fmt.Errorf("host: model.bundle: %s changed between two readings: leave the bundle alone during a run, and start again", h.session.file.Model.Bundle)
	}
	shape := h.session.shape()
	if h.segment, err = shm.Open(os.NewFile(fdSegment, "segment"), segmentLayout(shape)); err != nil {
		return nil, err
	}
	if h.link, err = newHostLink(h.segment, shape); err != nil {
		return nil, err
	}
	h.tally = newTally(shape)
	h.display = newDisplay(out, h.orders.Plain, h.orders.JSON)
	if err := h.openPlanning(); err != nil {
		return nil, err
	}
	if h.log, h.logPath, err = h.session.createLog(h.orders.Spec, h.orders.Posture, false); err != nil {
		return nil, err
	}
	return h, h.openDesk()
}

func (h *host) readOrders() error {
	f := os.NewFile(fdOrders, "orders")
	if f == nil {
		return errors.New("nothing inherited")
	}
	defer f.Close()
	if err := json.NewDecoder(f).Decode(&h.orders); err != nil {
		return err
	}
	file, err := configs.Parse("the orders", h.orders.YAML)
	h.session = &session{file: file, yaml: h.orders.YAML}
	return err
}

func (h *host) openPlanning() error {
	// All processors: the control thread, in its own process, goes before them.
	network, err := h.session.bundle.NewNetwork(tflite.Workers(runtime.GOMAXPROCS(0)))
	if err != nil {
		return err
	}
	planner, err := controller.NewPlanner(h.session.file.Controller, network)
	if err != nil {
		return err
	}
	h.planning = &planning{
		link: h.link, planner: planner, plan: controller.NewPlan(h.session.shape()),
		strategy: h.session.file.Controller.Strategy,
		every:    max(1, periods(h.session.file.Log.SnapshotS, h.orders.Spec.Period)),
		plans:    make(chan flightlog.Plan, 64), snapshots: make(chan flightlog.Snapshot, 4), events: make(chan flightlog.Event, 16),
	}
	return nil
}

func (h *host) openDesk() error {
	o := h.session.file.Operator
	var source rewardsrc.Source = silent{}
	var err error
	switch o.Source {
	case configs.SourceScripted:
		source, err = openScripted(o)
	case configs.SourceKeyboard:
		source, err = keyboard.Open(o.Keyboard, keyboard.Options{Display: h.display.notice, OnKey: h.key})
	case configs.SourceConsole:
		source = openConsole(o.Keyboard)
	}
	if err != nil {
		return err
	}
	h.watcher, _ = source.(rewardsrc.Watcher)
	h.desk = &desk{source: source, log: h.log, tally: h.tally, notify: h.display.label}
	return nil
}

// openConsole reads labels as lines of standard input.
func openConsole(k keyboard.Config) rewardsrc.Source {
	return console.Open(console.Options{
		In: os.Stdin, Out: os.Stdout, Good: k.GoodValue, Bad: k.BadValue,
		Reaction: time.Duration(k.ReactionMS * float64(time.Millisecond)),
	})
}

// key is a key that is no label.
func (h *host) key(k keyboard.Key) {
	if k == 'q' || k == keyboard.CtrlC {
		h.link.stop.Store(stopOperator)
	}
}

// run serves the control process until it has halted the robot, or is gone.
func (h *host) run() (err error) {
	defer func() { err = errors.Join(err, h.close()) }()
	first, err := h.planning.first()
	if err != nil {
		return err
	}
	h.note(h.writeSnapshot(first))
	h.display.begin(h.session, h.orders.Spec, posture{missing: h.orders.Missing}, h.tally)
	defer h.display.end() // also where this goroutine panics
	stop, gone := make(chan struct{}), make(chan struct{})
	go func() { // ends with the process at the latest
		_, _ = io.Copy(io.Discard, h.lifeline)
		close(gone)
	}()
	var wg sync.WaitGroup
	wg.Go(func() { h.beat(stop) })
	wg.Go(func() {
		if err := h.planning.run(stop); err != nil {
			offer(h.planning.events, flightlog.Event{At: monotonic(), Level: flightlog.Error, Text: err.Error()})
		}
	})
	h.link.ready.Store(1)
	err = h.serve(gone)
	close(stop)
	wg.Wait()
	h.drain()
	h.display.end()
	return err
}

var errOrphaned = errors.New("host: the control process died: whether the robot stopped depends on its own deadman: look at the robot before anything else")

// serve records until the control process has ended the run.
func (h *host) serve(gone <-chan struct{}) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		ended := h.link.ended.Load() != 0 // before the last look at the rings
		if err := h.takeTicks(); err != nil {
			return err
		}
		h.takeNotes()
		if ended {
			return nil
		}
		select {
		case <-gone:
			if h.link.ended.Load() != 0 {
				continue
			}
			return errors.Join(errOrphaned, h.takeTicks())
		case <-ticker.C:
		}
	}
}

// drain records what came at the last moment.
func (h *host) drain() {
	h.takeNotes()
	if fault := h.fault(); fault != controller.FaultNone {
		h.note(h.writeEvent(flightlog.Event{At: monotonic(), Level: flightlog.Error, Text: "robot halted: " + fault.String()}))
	}
}

// fault is why the control process halted the robot, once it has.
func (h *host) fault() controller.Fault {
	if code := h.link.ended.Load(); code > 1 {
		return controller.Fault(code - 1)
	}
	return controller.FaultNone
}

func (h *host) outcome() outcome {
	o := outcome{tally: h.tally, logPath: h.logPath, posture: h.orders.Posture}
	if fault := h.fault(); fault != controller.FaultNone {
		o.fault = fault.String()
	}
	return o
}

// takeTicks takes all ticks that have come, each with the requests that it
// made and the labels that the operator has for it.
func (h *host) takeTicks() error {
	for {
		t, err := h.link.nextTick()
		if err != nil {
			return err
		}
		if t == nil {
			h.takeRequests()
			h.takeLabels()
			return nil
		}
		if h.watcher != nil {
			h.watcher.Watch(t.Index, t.SenseAt, t.Reward, t.Flags.Has(controller.FlagReward))
		}
		h.takeRequests()
		h.takeLabels()
		if h.log != nil {
			h.note(h.log.WriteTick(t))
		}
		h.tally.add(t)
		h.display.tick(t)
		h.link.releaseTick()
	}
}

func (h *host) takeRequests() {
	for {
		r, ok := h.link.nextRequest()
		if !ok {
			return
		}
		h.note(h.desk.ask(r))
	}
}

// takeLabels takes labels only while the robot has room for them; the others
// wait in the device.
func (h *host) takeLabels() {
	var one [1]rewardsrc.Label
	for h.link.hasRoom() && h.desk.source.Poll(one[:]) == 1 {
		h.desk.pass(one[0], h.link.push)
	}
}

// takeNotes records what the planner offered.
func (h *host) takeNotes() {
	for {
		var err error
		select {
		case p := <-h.planning.plans:
			if h.log != nil {
				err = h.log.WritePlan(p)
			}
		case s := <-h.planning.snapshots:
			err = h.writeSnapshot(s)
		case e := <-h.planning.events:
			err = h.writeEvent(e)
		default:
			return
		}
		h.note(err)
	}
}

func (h *host) writeSnapshot(s flightlog.Snapshot) error {
	if h.log == nil {
		return nil
	}
	return h.log.WriteSnapshot(s.Next, s.State, s.Hash)
}

func (h *host) writeEvent(e flightlog.Event) error {
	h.display.event(e)
	if h.log == nil {
		return nil
	}
	return h.log.WriteEvent(e)
}

// note keeps the first failure of the log and shows it. The run goes on: a
// full disk does not stop a robot, but labels are refused.
func (h *host) note(err error) {
	if err == nil || h.logErr != nil {
		return
	}
	h.logErr = err
	h.display.event(flightlog.Event{At: monotonic(), Level: flightlog.Error, Text: err.Error()})
}

// beat tells the control process that the host is alive.
func (h *host) beat(stop <-chan struct{}) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			h.link.hostBeat.Add(1)
		}
	}
}

// close releases the operator's device and finishes the log.
func (h *host) close() error {
	errs := []error{h.desk.source.Halt(), h.logErr}
	if h.log != nil {
		errs = append(errs, h.log.WriteTiming(h.tally.timing()), h.log.Close())
	}
	return errors.Join(errs...)
}
