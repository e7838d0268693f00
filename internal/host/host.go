package host

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
	"optibfm/internal/link"
	"optibfm/internal/record"
	"optibfm/internal/setup"
	"optibfm/internal/summary"
	"optibfm/internal/terminal"
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
	FdCrash    // a file for the trace of a panic
)

// Serve is the host process. `run` starts it; people do not call it.
func Serve(out io.Writer) error {
	// The control process ends the run, not the terminal; and a
	// closed pipe ends what is shown, not what is recorded.
	signal.Ignore(append([]os.Signal{syscall.SIGPIPE, syscall.SIGTTIN, syscall.SIGTTOU}, link.StopSignals...)...)
	if err := errors.Join(link.NameThreads(link.HostName), DropRealTime(), RecordCrash(os.NewFile(FdCrash, "crash"))); err != nil {
		return err
	}
	h, err := Open(out)
	if err != nil {
		return err
	}
	return h.ServeAndSummarise(out)
}

// ServeAndSummarise is the host's life.
func (h *Process) ServeAndSummarise(out io.Writer) error {
	alive := h.watchLifeline()
	err := h.run(alive)
	if h.Tally.Ticks == 0 || errors.Is(err, errOrphaned) {
		return err
	}
	return errors.Join(err, summary.Print(alive, out, h.Session, h.outcome(), h.Orders.JSON))
}

// RecordCrash makes the runtime write the trace of a panic to f too, for what it
// prints goes with the full screen.
func RecordCrash(f *os.File) error {
	defer f.Close()
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return fmt.Errorf("host: crash output: %w: this command is started by `optibfm run`", err)
	}
	return nil
}

// Process is the process that has everything but the robot: planner, log,
// operator and screen.
type Process struct {
	Orders     link.HostConfig
	Session    *setup.Session
	segment    *link.Segment
	Link       *link.HostLink
	lifeline   *os.File
	Display    terminal.Display
	lines      *terminal.LineWriter // what the display writes to; nil: the full screen
	Desk       *record.LabelIntake
	Watcher    rewardsrc.Watcher   // may be nil
	sensedAt   int64               // of the newest tick
	operator   rewardsrc.Reachable // nil: always there
	web        *web.Server         // may be nil
	Log        *flightlog.Writer   // may be nil
	logPath    string
	beforehand []string // what to record and show first
	Tally      *record.Statistics
	Planning   *Planner
	Keep       *BeliefSaver // may be nil
	LogErr     error        // the first failure of the log
	mode       controller.Mode
	halted     link.StopReport // why, once it was
}

func Open(out io.Writer) (*Process, error) {
	h := &Process{lifeline: os.NewFile(fdLifeline, "lifeline")}
	if err := h.readOrders(); err != nil {
		return nil, fmt.Errorf("host: orders: %w: this command is started by `optibfm run`", err)
	}
	var err error
	if h.Session.Model, err = setup.OpenModel(h.Session.File.Model.Bundle); err != nil {
		return nil, err
	}
	if h.Session.Model.Fingerprint() != h.Orders.ModelHash {
		return nil, fmt.Errorf("host: model.bundle: %s changed between two readings: leave the bundle alone during a run, and start again", h.Session.File.Model.Bundle)
	}
	shape := h.Session.Shape()
	if h.segment, err = link.Open(os.NewFile(fdSegment, "segment"), shape, h.Orders.Spec.Period); err != nil {
		return nil, err
	}
	if h.Link, err = link.NewHostLink(h.segment, shape); err != nil {
		return nil, err
	}
	if h.Orders.Recalled != "" {
		h.beforehand = append(h.beforehand, h.Orders.Recalled)
	}
	h.Tally = record.NewStatistics(shape)
	if !terminal.TakesScreen(h.Orders.Show) {
		h.lines = terminal.NewLineWriter(out)
		out = h.lines
	}
	h.Display = terminal.NewDisplay(out, h.Orders.Show)
	if err := h.OpenPlanning(); err != nil {
		return nil, err
	}
	if h.Keep, err = OpenBeliefSaver(h.Session.File, h.Orders.ModelHash, h.Orders.Spec, shape.Latent, &h.Link.Steps, h.Planning.Events); err != nil {
		return nil, err
	}
	h.Planning.Keep = h.Keep
	source, err := h.openSource()
	if err != nil {
		return nil, err
	}
	if h.Session.File.Operator.Web.WatchOnly {
		if err := h.openWeb(); err != nil {
			return nil, errors.Join(err, source.Halt())
		}
	}
	h.Session.OnSync = func(running bool) { h.Link.Steps.Note(link.LogSync, running) }
	if h.Log, h.logPath, err = h.Session.CreateLog(h.Orders.Spec, h.Orders.Posture, false); err != nil {
		return nil, errors.Join(err, source.Halt(), h.haltWeb())
	}
	h.beforehand = append(h.beforehand, h.Session.LogNotices...)
	h.Watcher, _ = source.(rewardsrc.Watcher)
	h.operator, _ = source.(rewardsrc.Reachable)
	h.Desk = record.NewLabelIntake(h.Session.File, source, h.Tally, h.LabelTime)
	h.Desk.Log, h.Desk.Notify = h.Log, h.Display.Label
	h.Desk.Tell = func(e flightlog.Event) { h.Note(h.writeEvent(e)) }
	h.reach()
	return h, nil
}

// LabelTime is the clock of the labels: that of the samples for a source that watches the robot,
// which a simulator behind the bridge may simulate, else CLOCK_MONOTONIC.
func (h *Process) LabelTime() int64 {
	if h.Watcher != nil {
		return h.sensedAt
	}
	return rewardsrc.Monotonic()
}

func (h *Process) readOrders() error {
	f := os.NewFile(fdOrders, "orders")
	if f == nil {
		return errors.New("nothing inherited")
	}
	defer f.Close()
	if err := json.NewDecoder(f).Decode(&h.Orders); err != nil {
		return err
	}
	file, err := configs.Parse("the orders", h.Orders.YAML)
	h.Session = &setup.Session{File: file, YAML: h.Orders.YAML, Invoked: h.Orders.Invoked}
	return err
}

func (h *Process) OpenPlanning() error {
	// All processors: the control thread, in its own process, goes before them.
	searcher, note, err := h.Session.Model.Searcher(h.Session.File, addSlots())
	if err != nil {
		return err
	}
	if note != "" {
		h.Orders.Missing = append(h.Orders.Missing, "TensorFlow")
		h.Orders.Posture += "\n" + note
	}
	planner, err := controller.NewPlanner(h.Session.File.Controller, searcher)
	if err != nil {
		return err
	}
	h.Planning = &Planner{
		Link: h.Link, Planner: planner, Plan: controller.NewPlan(h.Session.Shape()),
		Strategy: h.Session.File.Controller.Strategy,
		Every:    max(1, setup.Periods(h.Session.File.Log.SnapshotS, h.Orders.Spec.Period)),
		Plans:    make(chan flightlog.Plan, 64), Snapshots: make(chan flightlog.Snapshot, 4), Events: make(chan flightlog.Event, 16),
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

func (h *Process) openSource() (rewardsrc.Source, error) {
	o := h.Session.File.Operator
	switch o.Source {
	case configs.SourceScripted:
		return setup.OpenScripted(o)
	case configs.SourceKeyboard:
		return keyboard.Open(o.Keyboard, keyboard.Options{Display: h.Notice, OnKey: h.Key})
	case configs.SourceEvdev:
		return evdev.Open(o.Evdev, evdev.Options{System: setup.InputDevices, Display: h.Notice})
	case configs.SourceGPIO:
		return gpio.Open(o.GPIO, gpio.Options{Display: h.Notice})
	case configs.SourceConsole:
		if h.Orders.JSON { // standard output is the summary's
			return openConsole(o.Keyboard, os.Stderr), nil
		}
		return openConsole(o.Keyboard, os.Stdout), nil
	case configs.SourceWeb:
		err := h.openWeb()
		return h.web, err
	}
	return setup.NoOperator{}, nil
}

// Notice shows what the operator's device has to say, and records what is
// still of interest afterwards.
func (h *Process) Notice(n rewardsrc.Notice) {
	h.Display.Notice(n)
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
	if h.Log != nil {
		h.Note(h.Log.WriteEvent(e))
	}
}

// reach tells the control process whether there is anybody to ask.
func (h *Process) reach() {
	away := uint64(0)
	if h.operator != nil && !h.operator.Reachable() {
		away = 1
	}
	h.Link.Away.Store(away)
}

// openConsole reads labels as lines of standard input.
func openConsole(k keyboard.Config, out io.Writer) rewardsrc.Source {
	return console.Open(console.Options{
		In: os.Stdin, Out: out, Good: k.GoodValue, Bad: k.BadValue,
		Reaction: time.Duration(k.ReactionMS * float64(time.Millisecond)),
	})
}

// Key is a key that is no label.
func (h *Process) Key(k keyboard.Key) {
	switch k {
	case 'q', keyboard.CtrlC:
		h.Link.Stop.Store(link.StopOperator)
	case ' ': // the largest one
		h.Link.Stop.CompareAndSwap(link.StopNone, link.StopRobot)
	}
}

// watchLifeline returns a context that ends when the control process has died,
// or does not wait for us any more.
func (h *Process) watchLifeline() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process at the latest
		defer cancel()
		_, _ = io.Copy(io.Discard, h.lifeline)
	}()
	return ctx
}

// run serves the control process until it has halted the robot, or is gone.
func (h *Process) run(alive context.Context) (err error) {
	defer func() { err = errors.Join(err, h.Close()) }()
	first, err := h.Planning.First()
	if err != nil {
		return err
	}
	h.Note(h.WriteSnapshot(first))
	h.Display.Begin(h.Session, h.Orders.Spec, h.Orders.Missing, h.Tally)
	defer h.Display.End() // also where this goroutine panics
	for _, text := range h.beforehand {
		h.Note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: flightlog.Info, Text: text}))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { h.beat(stop) })
	kept := h.StartKeeper()
	tidied := startTidying(h.Session.File.Log, h.Planning.Events, TidyEvery)
	planned := make(chan struct{})
	go func() {
		defer close(planned)
		if err := h.Planning.run(stop); err != nil {
			record.Offer(h.Planning.Events, flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
		}
	}()
	h.Link.Ready.Store(1)
	err = h.serve(alive)
	close(stop)
	wg.Wait()
	select {
	case <-planned:
	case <-time.After(lastSearch): // a GPU that hangs must not cost the log its end
		h.Note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: ErrSearchLeft.Error()}))
	}
	kept()
	tidied()
	h.drain()
	h.Display.End()
	if h.lines != nil { // before the summary
		_ = h.lines.Close() // never an error
	}
	return err
}

var errOrphaned = errors.New("host: the control process died: whether the robot stopped depends on its own deadman: look at the robot before anything else")

// serve records until the control process has ended the run.
func (h *Process) serve(alive context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		ended := h.Link.Ended.Load() != 0 // before the last look at the rings
		h.Link.Steps.Note(link.RecorderRound, true)
		if err := h.TakeTicks(); err != nil {
			return err
		}
		h.TakeNotes()
		h.takeStop()
		h.Link.Steps.Note(link.RecorderRound, false)
		if ended {
			return nil
		}
		select {
		case <-alive.Done():
			if h.Link.Ended.Load() != 0 {
				continue
			}
			h.Note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: errOrphaned.Error()}))
			return errors.Join(errOrphaned, h.TakeTicks())
		case <-ticker.C:
		}
	}
}

// StartKeeper starts to write the belief down. What it returns ends that, once
// the planner has ended, with the last belief.
func (h *Process) StartKeeper() (end func()) {
	if h.Keep == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Keep.run()
	}()
	return func() {
		close(h.Keep.newest)
		<-done
		last, _, err := h.Link.NewestState()
		if err := errors.Join(err, h.Keep.finish(last)); err != nil {
			h.Note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()}))
		}
	}
}

// drain records what came at the last moment.
func (h *Process) drain() {
	h.TakeNotes()
	h.Desk.Flush()
	h.takeStop()
	if h.fault() != controller.FaultNone {
		h.tell(flightlog.Error, "robot halted: "+h.halted.String())
	}
	if n := h.Link.Waited.Load(); n > 0 {
		h.tell(flightlog.Warn, fmt.Sprintf("the simulated robot, and its time, stood still for %d ticks "+
			"because the host was slow (run.simulator_wait_s)", n))
	}
}

// tell shows and records an event of now.
func (h *Process) tell(level flightlog.Level, text string) {
	h.Note(h.writeEvent(flightlog.Event{At: rtloop.Now(), Level: level, Text: text}))
}

// takeStop takes the newest cause of a stop. One that the run outlasts is recorded at
// once, the last one when the run has ended.
func (h *Process) takeStop() {
	r, fresh := h.Link.NewestStop()
	if !fresh {
		return
	}
	h.halted = r
	if r.Final == 0 {
		h.tell(flightlog.Error, "robot stopped: "+r.String()+"; fix the cause, then: "+h.Session.Invoked.OperatorCommand("reset"))
	}
}

// fault is why the control process halted the robot, once it has.
func (h *Process) fault() controller.Fault {
	if code := h.Link.Ended.Load(); code > 1 {
		return controller.Fault(code - 1)
	}
	return controller.FaultNone
}

func (h *Process) outcome() record.Outcome {
	o := record.Outcome{Tally: h.Tally, Robot: h.Orders.Spec.Name, LogPath: h.logPath, Posture: h.Orders.Posture}
	o.Waited = h.Link.Waited.Load()
	if fault := h.fault(); fault != controller.FaultNone {
		o.Fault, o.Found = fault.String(), h.halted.Found()
	}
	return o
}

// TakeTicks takes all ticks that have come, each with the requests that it
// made and the labels that the operator has for it.
func (h *Process) TakeTicks() error {
	for {
		t, err := h.Link.NextTick()
		if err != nil {
			return err
		}
		if t == nil {
			h.takeRequests()
			h.TakeLabels()
			return nil
		}
		h.sensedAt = t.SenseAt
		if h.Watcher != nil {
			h.Watcher.Watch(t.Index, t.SenseAt, t.Reward, t.Flags.Has(controller.FlagReward))
		}
		h.Desk.NoteTick(t)
		h.takeRequests()
		h.TakeLabels()
		if h.Log != nil {
			h.Link.Steps.Note(link.LogWrite, true)
			h.Note(h.Log.WriteTick(t))
			h.Link.Steps.Note(link.LogWrite, false)
		}
		h.count(t)
		h.noteMode(t)
		h.Keep.taught(t)
		h.Link.Steps.Note(link.DisplayUpdate, true)
		h.Display.Tick(t)
		h.Link.Steps.Note(link.DisplayUpdate, false)
		h.Link.ReleaseTick()
	}
}

// count counts a tick, and tells the operator what the records alone would
// tell too late. The full screen shows refused labels by itself.
func (h *Process) count(t *controller.Tick) {
	before := h.Tally.Dropped
	h.Tally.Add(t)
	if before == 0 && h.Tally.Dropped > 0 {
		h.warn("records of ticks are missing: the disk or the output does not keep up with the robot, which goes on")
	}
	if terminal.TakesScreen(h.Orders.Show) {
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
func (h *Process) noteMode(t *controller.Tick) {
	mode := t.Mode()
	if mode == h.mode || !h.Session.File.Safety.Attended() {
		return
	}
	h.mode = mode
	if mode != controller.Stopped {
		h.Note(h.writeEvent(flightlog.Event{At: t.Done, Level: flightlog.Info, Text: "robot " + mode.String()}))
	}
}

// warn shows what the log has in its own way.
func (h *Process) warn(text string) {
	h.Display.Event(flightlog.Event{At: rtloop.Now(), Level: flightlog.Warn, Text: text})
}

func (h *Process) takeRequests() {
	for {
		r, ok := h.Link.NextRequest()
		if !ok {
			return
		}
		h.Note(h.Desk.Ask(r))
	}
}

// TakeLabels takes labels only while the robot has room for them; the others
// wait in the device. It takes a bounded number, since a refused label needs no
// room. Once the run has ended none is acknowledged: the robot would not apply
// it.
func (h *Process) TakeLabels() {
	h.reach()
	var one [1]rewardsrc.Label
	for range link.LabelSlots {
		if h.Link.Ended.Load() != 0 || !h.Link.HasRoom() || h.Desk.Source.Poll(one[:]) == 0 {
			break
		}
		h.Link.Steps.Note(link.LabelIntake, true)
		h.Desk.Pass(one[0], h.Link.Push)
		h.Link.Steps.Note(link.LabelIntake, false)
	}
	h.Desk.Report()
}

// TakeNotes records what the planner offered.
func (h *Process) TakeNotes() {
	for {
		var err error
		select {
		case p := <-h.Planning.Plans:
			if h.Log != nil {
				err = h.Log.WritePlan(p)
			}
		case s := <-h.Planning.Snapshots:
			err = h.WriteSnapshot(s)
		case e := <-h.Planning.Events:
			err = h.writeEvent(e)
		default:
			return
		}
		h.Note(err)
	}
}

func (h *Process) WriteSnapshot(s flightlog.Snapshot) error {
	if h.Log == nil {
		return nil
	}
	return h.Log.WriteSnapshot(s.Next, s.State, s.Hash)
}

func (h *Process) writeEvent(e flightlog.Event) error {
	h.Display.Event(e)
	if h.Log == nil {
		return nil
	}
	return h.Log.WriteEvent(e)
}

// Note keeps the first failure of the log and shows it. The run goes on: a
// full disk does not stop a robot, but labels are refused.
func (h *Process) Note(err error) {
	if err == nil || h.LogErr != nil {
		return
	}
	h.LogErr = err
	h.Display.Event(flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
}

// beat tells the control process that the host makes progress: that neither the
// planner nor the recorder takes longer for a step than its limit.
func (h *Process) beat(stop <-chan struct{}) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if now := rtloop.Now(); h.Link.Steps.Alive(now) {
			h.Link.HostBeat.Store(uint64(now))
		}
	}
}

// Close releases the operator's device and finishes the log.
func (h *Process) Close() error {
	err := errors.Join(h.Desk.Source.Halt(), h.haltWeb())
	if h.Log == nil {
		return err
	}
	logErr := errors.Join(h.Log.WriteTiming(h.Tally.Timing()), h.Log.Close())
	if h.LogErr != nil { // what comes after it says the same
		logErr = h.LogErr
	}
	return errors.Join(err, logErr)
}
