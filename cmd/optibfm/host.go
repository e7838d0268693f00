package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/shm"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/console"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/gpio"
	"optibfm/rewardsrc/keyboard"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

// Descriptors that the host process inherits.
const (
	fdSegment = 3 + iota
	fdOrders
	fdLifeline // a pipe whose other end dies with the control process
	fdCrash    // a file for the trace of a panic
)

// orders is what the control process tells the host at the start.
type orders struct {
	YAML      []byte // the whole configuration
	ModelHash string // of the bundle that the control process uses
	Spec      hal.Spec
	Posture   string
	Missing   []string // of the posture: what was not granted
	Show      string   // one of the displays of newDisplay
	JSON      bool     // the summary as JSON
	Recalled  string   // what became of earlier runs' belief, in words
	Invoked   invocation
}

// Serve is the host process. `run` starts it; people do not call it.
func Serve(out io.Writer) error {
	// The control process ends the run, not the terminal; and a
	// closed pipe ends what is shown, not what is recorded.
	signal.Ignore(append([]os.Signal{syscall.SIGPIPE, syscall.SIGTTIN, syscall.SIGTTOU}, stopSignals...)...)
	if err := errors.Join(nameThreads(hostName), dropRealTime(), keepCrash(os.NewFile(fdCrash, "crash"))); err != nil {
		return err
	}
	h, err := openHost(out)
	if err != nil {
		return err
	}
	return h.serveAndSummarise(out)
}

// serveAndSummarise is the host's life.
func (h *host) serveAndSummarise(out io.Writer) error {
	alive := h.watchLifeline()
	err := h.run(alive)
	if h.tally.ticks == 0 || errors.Is(err, errOrphaned) {
		return err
	}
	return errors.Join(err, summarise(alive, out, h.session, h.outcome(), h.orders.JSON))
}

// keepCrash makes the runtime write the trace of a panic to f too, for what it
// prints goes with the full screen.
func keepCrash(f *os.File) error {
	defer f.Close()
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return fmt.Errorf("host: crash output: %w: this command is started by `optibfm run`", err)
	}
	return nil
}

// host is the process that has everything but the robot: planner, log,
// operator and screen.
type host struct {
	orders     orders
	session    *session
	segment    *shm.Segment
	link       *hostLink
	lifeline   *os.File
	display    display
	lines      *lineWriter // what the display writes to; nil: the full screen
	desk       *desk
	watcher    rewardsrc.Watcher   // may be nil
	sensedAt   int64               // of the newest tick
	operator   rewardsrc.Reachable // nil: always there
	web        *web.Server         // may be nil
	log        *flightlog.Writer   // may be nil
	logPath    string
	beforehand []string // what to record and show first
	tally      *tally
	planning   *planning
	keep       *keeper // may be nil
	logErr     error   // the first failure of the log
	mode       controller.Mode
	halted     stopReport // why, once it was
}

func openHost(out io.Writer) (*host, error) {
	h := &host{lifeline: os.NewFile(fdLifeline, "lifeline")}
	if err := h.readOrders(); err != nil {
		return nil, fmt.Errorf("host: orders: %w: this command is started by `optibfm run`", err)
	}
	var err error
	if h.session.model, err = openModel(h.session.file.Model); err != nil {
		return nil, err
	}
	if h.session.model.hash() != h.orders.ModelHash {
		return nil, fmt.Errorf("host: model.bundle: %s changed between two readings: leave the bundle alone during a run, and start again", h.session.file.Model.Bundle)
	}
	shape := h.session.shape()
	if h.segment, err = shm.Open(os.NewFile(fdSegment, "segment"), segmentLayout(shape, h.orders.Spec.Period)); err != nil {
		return nil, err
	}
	if h.link, err = newHostLink(h.segment, shape); err != nil {
		return nil, err
	}
	if h.orders.Recalled != "" {
		h.beforehand = append(h.beforehand, h.orders.Recalled)
	}
	h.tally = newTally(shape)
	if !takesScreen(h.orders.Show) {
		h.lines = newLineWriter(out)
		out = h.lines
	}
	h.display = newDisplay(out, h.orders.Show)
	if err := h.openPlanning(); err != nil {
		return nil, err
	}
	if h.keep, err = openKeeper(h.session.file, h.orders.ModelHash, h.orders.Spec, shape.Latent, &h.link.steps, h.planning.events); err != nil {
		return nil, err
	}
	h.planning.keep = h.keep
	source, err := h.openSource()
	if err != nil {
		return nil, err
	}
	if h.session.file.Operator.Web.WatchOnly {
		if err := h.openWeb(); err != nil {
			return nil, errors.Join(err, source.Halt())
		}
	}
	h.session.onSync = func(running bool) { h.link.steps.note(logSync, running) }
	if h.log, h.logPath, err = h.session.createLog(h.orders.Spec, h.orders.Posture, false); err != nil {
		return nil, errors.Join(err, source.Halt(), h.haltWeb())
	}
	h.beforehand = append(h.beforehand, h.session.roomMade...)
	h.watcher, _ = source.(rewardsrc.Watcher)
	h.operator, _ = source.(rewardsrc.Reachable)
	h.desk = newDesk(h.session.file, source, h.tally, h.labelTime)
	h.desk.log, h.desk.notify = h.log, h.display.label
	h.desk.tell = func(e flightlog.Event) { h.note(h.writeEvent(e)) }
	h.reach()
	return h, nil
}

// labelTime is the clock of the labels: that of the samples for a source that watches the robot,
// which a simulator behind the bridge may simulate, else CLOCK_MONOTONIC.
func (h *host) labelTime() int64 {
	if h.watcher != nil {
		return h.sensedAt
	}
	return rewardsrc.Monotonic()
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
	h.session = &session{file: file, yaml: h.orders.YAML, invoked: h.orders.Invoked}
	return err
}

func (h *host) openPlanning() error {
	// All processors: the control thread, in its own process, goes before them.
	searcher, note, err := h.session.model.searcher(h.session.file, addSlots())
	if err != nil {
		return err
	}
	if note != "" {
		h.orders.Missing = append(h.orders.Missing, "TensorFlow")
		h.orders.Posture += "\n" + note
	}
	planner, err := controller.NewPlanner(h.session.file.Controller, searcher)
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

// addSlots returns how many threads may compute, and gives the process scheduler slots
// (GOMAXPROCS) beyond those: where a search keeps all of them busy, heartbeat, recorder
// and consoles would wait for the Go scheduler to preempt it. The kernel lets a thread
// that seldom runs go first.
func addSlots() (computing int) {
	const others = 2
	computing = runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(computing + others)
	return computing
}

func (h *host) openSource() (rewardsrc.Source, error) {
	o := h.session.file.Operator
	switch o.Source {
	case configs.SourceScripted:
		return openScripted(o)
	case configs.SourceKeyboard:
		return keyboard.Open(o.Keyboard, keyboard.Options{Display: h.notice, OnKey: h.key})
	case configs.SourceEvdev:
		return evdev.Open(o.Evdev, evdev.Options{System: inputDevices, Display: h.notice})
	case configs.SourceGPIO:
		return gpio.Open(o.GPIO, gpio.Options{Display: h.notice})
	case configs.SourceConsole:
		if h.orders.JSON { // standard output is the summary's
			return openConsole(o.Keyboard, os.Stderr), nil
		}
		return openConsole(o.Keyboard, os.Stdout), nil
	case configs.SourceWeb:
		err := h.openWeb()
		return h.web, err
	}
	return silent{}, nil
}

// inputDevices is where an evdev source looks; a test has its own.
var inputDevices evdev.System = evdev.Kernel{}

// notice shows what the operator's device has to say, and records what is
// still of interest afterwards.
func (h *host) notice(n rewardsrc.Notice) {
	h.display.notice(n)
	e := flightlog.Event{At: rtloop.Now(), Level: flightlog.Warn, Text: n.Text}
	switch n.Event {
	case rewardsrc.Lost:
		e.Level = flightlog.Error
	case rewardsrc.Returned:
		e.Level = flightlog.Info
	case rewardsrc.Ignored:
	default:
		return
	}
	if h.log != nil {
		h.note(h.log.WriteEvent(e))
	}
}

// reach tells the control process whether there is anybody to ask.
func (h *host) reach() {
	away := uint64(0)
	if h.operator != nil && !h.operator.Reachable() {
		away = 1
	}
	h.link.away.Store(away)
}

// openConsole reads labels as lines of standard input.
func openConsole(k keyboard.Config, out io.Writer) rewardsrc.Source {
	return console.Open(console.Options{
		In: os.Stdin, Out: out, Good: k.GoodValue, Bad: k.BadValue,
		Reaction: time.Duration(k.ReactionMS * float64(time.Millisecond)),
	})
}

// key is a key that is no label.
func (h *host) key(k keyboard.Key) {
	switch k {
	case 'q', keyboard.CtrlC:
		h.link.stop.Store(stopOperator)
	case ' ': // the largest one
		h.link.stop.CompareAndSwap(stopNone, stopRobot)
	}
}

// watchLifeline returns a context that ends when the control process has died,
// or does not wait for us any more.
func (h *host) watchLifeline() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process at the latest
		defer cancel()
		_, _ = io.Copy(io.Discard, h.lifeline)
	}()
	return ctx
}

// run serves the control process until it has halted the robot, or is gone.
func (h *host) run(alive context.Context) (err error) {
	defer func() { err = errors.Join(err, h.close()) }()
	first, err := h.planning.first()
	if err != nil {
		return err
	}
	h.note(h.writeSnapshot(first))
	h.display.begin(h.session, h.orders.Spec, h.orders.Missing, h.tally)
	defer h.display.end() // also where this goroutine panics
	for _, text := range h.beforehand {
		h.note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: flightlog.Info, Text: text}))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { h.beat(stop) })
	kept := h.startKeeper()
	tidied := startTidying(h.session.file.Log, h.planning.events, tidyEvery)
	planned := make(chan struct{})
	go func() {
		defer close(planned)
		if err := h.planning.run(stop); err != nil {
			offer(h.planning.events, flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
		}
	}()
	h.link.ready.Store(1)
	err = h.serve(alive)
	close(stop)
	wg.Wait()
	select {
	case <-planned:
	case <-time.After(lastSearch): // a GPU that hangs must not cost the log its end
		h.note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: errSearchLeft.Error()}))
	}
	kept()
	tidied()
	h.drain()
	h.display.end()
	if h.lines != nil { // before the summary
		_ = h.lines.Close() // never an error
	}
	return err
}

var errOrphaned = errors.New("host: the control process died: whether the robot stopped depends on its own deadman: look at the robot before anything else")

// serve records until the control process has ended the run.
func (h *host) serve(alive context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		ended := h.link.ended.Load() != 0 // before the last look at the rings
		h.link.steps.note(recorderRound, true)
		if err := h.takeTicks(); err != nil {
			return err
		}
		h.takeNotes()
		h.takeStop()
		h.link.steps.note(recorderRound, false)
		if ended {
			return nil
		}
		select {
		case <-alive.Done():
			if h.link.ended.Load() != 0 {
				continue
			}
			h.note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: errOrphaned.Error()}))
			return errors.Join(errOrphaned, h.takeTicks())
		case <-ticker.C:
		}
	}
}

// startKeeper starts to write the belief down. What it returns ends that, once
// the planner has ended, with the last belief.
func (h *host) startKeeper() (end func()) {
	if h.keep == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.keep.run()
	}()
	return func() {
		close(h.keep.newest)
		<-done
		last, _, err := h.link.newestState()
		if err := errors.Join(err, h.keep.finish(last)); err != nil {
			h.note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()}))
		}
	}
}

// drain records what came at the last moment.
func (h *host) drain() {
	h.takeNotes()
	h.desk.flush()
	h.takeStop()
	if h.fault() != controller.FaultNone {
		h.tell(flightlog.Error, "robot halted: "+h.halted.String())
	}
	if n := h.link.waited.Load(); n > 0 {
		h.tell(flightlog.Warn, fmt.Sprintf("the simulated robot, and its time, stood still for %d ticks "+
			"because the host was slow (run.simulator_wait_s)", n))
	}
}

// tell shows and records an event of now.
func (h *host) tell(level flightlog.Level, text string) {
	h.note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: level, Text: text}))
}

// takeStop takes the newest cause of a stop. One that the run outlasts is recorded at
// once, the last one when the run has ended.
func (h *host) takeStop() {
	r, fresh := h.link.newestStop()
	if !fresh {
		return
	}
	h.halted = r
	if r.Final == 0 {
		h.tell(flightlog.Error, "robot stopped: "+r.String()+"; fix the cause, then: "+h.session.invoked.operate("reset"))
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
	o := outcome{tally: h.tally, robot: h.orders.Spec.Name, logPath: h.logPath, posture: h.orders.Posture}
	o.waited = h.link.waited.Load()
	if fault := h.fault(); fault != controller.FaultNone {
		o.fault, o.found = fault.String(), h.halted.found()
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
		h.sensedAt = t.SenseAt
		if h.watcher != nil {
			h.watcher.Watch(t.Index, t.SenseAt, t.Reward, t.Flags.Has(controller.FlagReward))
		}
		h.desk.noteTick(t)
		h.takeRequests()
		h.takeLabels()
		if h.log != nil {
			h.link.steps.note(logWrite, true)
			h.note(h.log.WriteTick(t))
			h.link.steps.note(logWrite, false)
		}
		h.count(t)
		h.noteMode(t)
		h.keep.taught(t)
		h.link.steps.note(displayUpdate, true)
		h.display.tick(t)
		h.link.steps.note(displayUpdate, false)
		h.link.releaseTick()
	}
}

// count counts a tick, and tells the operator what the records alone would
// tell too late. The full screen shows refused labels by itself.
func (h *host) count(t *controller.Tick) {
	before := h.tally.dropped
	h.tally.add(t)
	if before == 0 && h.tally.dropped > 0 {
		h.warn("records of ticks are missing: the disk or the output does not keep up with the robot, which goes on")
	}
	if takesScreen(h.orders.Show) {
		return
	}
	for i := range t.NumLabels {
		if l := &t.Labels[i]; l.Outcome != controller.Applied && l.Outcome != controller.ClosedRequest {
			h.warn(fmt.Sprintf("%v %d does NOT count: %v", l.Kind, l.ID, l.Outcome))
		}
	}
}

// noteMode records when an operator's robot is armed or disarmed. takeStop records
// its stops. A simulator arms itself.
func (h *host) noteMode(t *controller.Tick) {
	mode := t.Mode()
	if mode == h.mode || !h.session.file.Safety.Attended() {
		return
	}
	h.mode = mode
	if mode != controller.Stopped {
		h.note(h.writeEvent(flightlog.Event{At: t.Done, Level: flightlog.Info, Text: "robot " + mode.String()}))
	}
}

// warn shows what the log has in its own way.
func (h *host) warn(text string) {
	h.display.event(flightlog.Event{At: rtloop.Now(), Level: flightlog.Warn, Text: text})
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
// wait in the device. It takes a bounded number, since a refused label needs no
// room. Once the run has ended none is acknowledged: the robot would not apply
// it.
func (h *host) takeLabels() {
	h.reach()
	var one [1]rewardsrc.Label
	for range labelSlots {
		if h.link.ended.Load() != 0 || !h.link.hasRoom() || h.desk.source.Poll(one[:]) == 0 {
			break
		}
		h.link.steps.note(labelIntake, true)
		h.desk.pass(one[0], h.link.push)
		h.link.steps.note(labelIntake, false)
	}
	h.desk.report()
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
	h.display.event(flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
}

// beat tells the control process that the host makes progress: that neither the
// planner nor the recorder takes longer for a step than its limit.
func (h *host) beat(stop <-chan struct{}) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if now := rtloop.Now(); h.link.steps.alive(now) {
			h.link.hostBeat.Store(uint64(now))
		}
	}
}

// close releases the operator's device and finishes the log.
func (h *host) close() error {
	err := errors.Join(h.desk.source.Halt(), h.haltWeb())
	if h.log == nil {
		return err
	}
	logErr := errors.Join(h.log.WriteTiming(h.tally.timing()), h.log.Close())
	if h.logErr != nil { // what comes after it says the same
		logErr = h.logErr
	}
	return errors.Join(err, logErr)
}
