package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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
	"optibfm/internal/ipc"
	"optibfm/internal/recorder"
	"optibfm/internal/registry"
	"optibfm/internal/sections"
	"optibfm/internal/setup"
	"optibfm/internal/summary"
	"optibfm/internal/taskstore"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/console"
	"optibfm/rewardsrc/frames"
	"optibfm/rewardsrc/keyboard"
	"optibfm/rewardsrc/panel"
	"optibfm/rewardsrc/remote"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

// Descriptors that the host process inherits.
const (
	fdSegment  = 3 + iota
	fdLifeline // a pipe: the configuration, then nothing until its other end dies with the control process
	FdCrash    // a file for the trace of a panic
	fdTasks    // the socket of link.TaskChanger
	fdWeights  // the socket that passes the file of a native model's weights
)

// Serve is the host process. out is where it shows the run.
func Serve(out io.Writer) error {
	// The control process ends a run, not the terminal. A closed pipe ends the display, not the
	// log.
	signal.Ignore(append([]os.Signal{syscall.SIGPIPE, syscall.SIGTTIN, syscall.SIGTTOU}, ipc.StopSignals...)...)
	err := errors.Join(ipc.NameThreads(ipc.HostName), DropRealTime(), checkPrivileges(),
		RecordCrash(os.NewFile(FdCrash, "crash")))
	if err != nil {
		return err
	}
	h, err := Open(out)
	if errors.Is(err, io.EOF) { // the control process ended before it had a robot, and reports the cause
		return nil
	}
	if err != nil {
		return err
	}
	return h.ServeAndSummarise(out)
}

// ServeAndSummarise records the run and prints its summary.
func (h *Process) ServeAndSummarise(out io.Writer) error {
	alive := h.watchLifeline()
	err := h.run(alive)
	if errors.Is(err, errOrphaned) {
		if keep := summary.SaveCommand(h.Session, h.Recorder.Statistics, h.logPath); keep != "" {
			err = fmt.Errorf("%w; to keep what it learnt: %s", err, keep)
		}
	}
	if h.Recorder.Statistics.Ticks == 0 || errors.Is(err, errOrphaned) {
		return err
	}
	return errors.Join(err, summary.Print(alive, out, h.Session, h.outcome(), h.Config.JSON))
}

// RecordCrash makes the runtime write the trace of a panic to f too: the full screen hides standard
// error.
func RecordCrash(f *os.File) error {
	defer f.Close()
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return fmt.Errorf("host: crash output: %w; `optibfm run` starts this command", err)
	}
	return nil
}

// Process is the host process: planner, recorder, label intake, operator devices and displays.
type Process struct {
	Config   ipc.HostConfig
	Session  *setup.Session
	segment  *ipc.Segment
	Link     *ipc.HostLink
	lifeline *os.File
	Display  terminal.Display
	lines    *terminal.LineWriter // output of the display; nil: the full screen
	Recorder *recorder.Recorder
	Intake   *recorder.LabelIntake
	watcher  rewardsrc.Watcher   // may be nil
	sensedAt int64               // of the newest tick
	operator rewardsrc.Reachable // nil: always reachable
	attend   attendance          // of the operator
	awaited  bool                // the robot stood still for the first input
	web      *web.Server         // may be nil
	keys     *keyboard.Keyboard  // of the screen, beside another label device; may be nil
	pictures *frames.Store       // nil: the robot has none
	logPath  string
	notes    []string // events of the start
	Planner  *Planner
	labels   labelBook
	saver    *beliefSaver   // may be nil
	former   *formerTask    // that the operator may keep; nil: none
	saving   sync.WaitGroup // of former tasks
	mode     controller.Mode
	halted   ipc.StopReport // the newest cause
	orphaned bool           // the control process died
}

// Open opens the host's half of a run from the inherited descriptors. out is the terminal or file
// of the display.
func Open(out io.Writer) (*Process, error) {
	h := &Process{lifeline: os.NewFile(fdLifeline, "lifeline")}
	if err := h.readConfig(); err != nil {
		return nil, fmt.Errorf("host: configuration: %w; `optibfm run` starts this command", err)
	}
	if err := h.openModel(); err != nil {
		return nil, err
	}
	if err := h.openLink(); err != nil {
		return nil, err
	}
	if h.Config.Recalled != "" {
		h.notes = append(h.notes, h.Config.Recalled)
	}
	if !terminal.TakesScreen(h.Config.Show) {
		h.lines = terminal.NewLineWriter(out)
		out = h.lines
	}
	h.Display = terminal.NewDisplay(out, h.Config.Show)
	if err := h.OpenPlanner(); err != nil {
		return nil, err
	}
	h.openPictures()
	source, err := h.openSource()
	if err != nil {
		return nil, err
	}
	if h.Session.File.Operator.Web.WatchOnly {
		if err := h.openWeb(); err != nil {
			return nil, errors.Join(err, source.Halt())
		}
	}
	h.Session.OnSync = func(running bool) { h.Link.Steps.Note(ipc.LogSync, running) }
	log, path, err := h.Session.CreateLog(h.Config.Spec, h.Config.Posture, false)
	if err != nil {
		return nil, errors.Join(err, source.Halt(), h.haltWeb())
	}
	h.keys = terminal.OpenKeys(h.Display, h.Config.Show, h.Session.File.Operator.Source)
	h.logPath = path
	h.notes = append(h.notes, h.Session.LogNotices...)
	h.Connect(log, source)
	return h, nil
}

func (h *Process) openModel() (err error) {
	socket := os.NewFile(fdWeights, "weights")
	defer socket.Close()
	weights, err := ipc.ReceiveFile(socket)
	if err != nil {
		return fmt.Errorf("host: weights: %w", err)
	}
	bundle := h.Session.File.Model
	if h.Session.Model, err = setup.OpenSharedModel(weights, bundle.Bundle); err != nil {
		return err
	}
	if h.Session.Model.Fingerprint() != h.Config.ModelHash {
		return fmt.Errorf("host: model.bundle: %s changed during the start; do not change it", bundle.Bundle)
	}
	return nil
}

func (h *Process) openLink() (err error) {
	shape := h.Session.Shape()
	if h.segment, err = ipc.Open(os.NewFile(fdSegment, "segment"), shape, h.Config.Spec.Period); err != nil {
		return err
	}
	h.Link, err = ipc.NewHostLink(h.segment, shape)
	return err
}

// Connect connects recorder, label intake and source. A nil log records nothing.
func (h *Process) Connect(log *flightlog.Writer, source rewardsrc.Source) {
	h.Recorder = &recorder.Recorder{
		Statistics: recorder.NewStatistics(h.Session.Shape()), Log: log, Display: h.Display,
		Learnt: h.saver.Learnt, Steps: &h.Link.Steps, KeepKey: terminal.KeepInput(h.Session.File.Operator),
	}
	h.watcher, _ = source.(rewardsrc.Watcher)
	h.operator, _ = source.(rewardsrc.Reachable)
	h.Intake = recorder.NewLabelIntake(h.Session.File, source, h.Recorder, h.labelTime)
	operator, control := h.Session.File.Operator, h.Session.File.Controller
	if h.attend.awaitsFirst = h.Config.Awaits; h.Config.Awaits {
		h.notes = append(h.notes, "the robot waits for you: "+terminal.FirstInput(operator)+" to start it")
	}
	h.attend.blind = operator.ByPerson() && operator.Source != configs.SourceWeb && !h.showsMoments()
	if h.attend.blind && !h.Config.Awaits && !control.Gate.Off {
		h.notes = append(h.notes, "questions wait until you are there: "+terminal.FirstInput(operator))
	}
	if h.attend.blind && !control.Gate.Off && control.Gate.Pause == "" && control.Credit.Answers == controller.AtRequest {
		h.notes = append(h.notes, "you do not see the moment of a question: set controller.credit.answers to estimated, "+
			"or controller.gate.pause to hold")
	}
	h.updateReachable()
}

// labelTime is the clock of the labels. A source that watches the robot uses the clock of the
// samples, which a simulator behind the bridge may simulate; all others use CLOCK_MONOTONIC.
func (h *Process) labelTime() int64 {
	if h.watcher != nil {
		return h.sensedAt
	}
	return rewardsrc.Monotonic()
}

func (h *Process) readConfig() error {
	if err := json.NewDecoder(h.lifeline).Decode(&h.Config); err != nil {
		return err
	}
	file, err := configs.Parse("the host's configuration", h.Config.YAML)
	file.Controller = h.Config.Control
	h.Session = &setup.Session{
		File: file, YAML: h.Config.YAML, Invoked: h.Config.Invoked, Began: h.Config.Began, Lineage: h.Config.Lineage,
	}
	h.labels.begin(h.Config.Lineage)
	return err
}

// OpenPlanner opens planner and belief saver.
func (h *Process) OpenPlanner() error {
	// All processors: the control thread has a higher priority, in its own process.
	searcher, note, err := h.Session.Model.Searcher(h.Session.File, addSlots())
	if err != nil {
		return err
	}
	if note != "" {
		h.Config.Missing = append(h.Config.Missing, "the backend of the search")
		h.Config.Posture += "\n" + note
	}
	planner, err := controller.NewPlanner(h.Session.File.Controller, searcher)
	if err != nil {
		return err
	}
	h.Planner = &Planner{
		Link: h.Link, Planner: planner, Plan: controller.NewPlan(h.Session.Shape()),
		Strategy: h.Session.File.Controller.Strategy,
		Every:    max(1, setup.Periods(h.Session.File.Log.SnapshotS, h.Config.Spec.Period)),
		Plans:    make(chan flightlog.Plan, 64), Snapshots: make(chan flightlog.Snapshot, 4),
		Events: make(chan flightlog.Event, 16),
	}
	h.saver, err = h.openBeliefSaver()
	h.Planner.saver = h.saver
	return err
}

// addSlots returns the number of threads that may compute and adds scheduler slots (GOMAXPROCS) to
// them. If a search kept all slots busy, heartbeat, recorder and consoles would wait for the Go
// scheduler to preempt it. The kernel prefers threads that seldom run.
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
	case configs.SourceRemote:
		return remote.Open(o.Remote, h.Link, panel.Options{Display: h.Notice})
	case configs.SourceConsole:
		if h.Config.JSON { // standard output is for the summary
			return openConsole(o.Keyboard, os.Stderr), nil
		}
		return openConsole(o.Keyboard, os.Stdout), nil
	case configs.SourceWeb:
		err := h.openWeb()
		return h.web, err
	}
	if o.Source == configs.SourceNone {
		return setup.NoOperator{}, nil
	}
	return sections.OpenSource(o.Source, o.Chosen(), h.Notice)
}

// Notice shows a message of the operator's device and records the important ones.
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
	if h.Recorder != nil {
		h.Recorder.LogEvent(e)
	}
}

// updateReachable reports to the control process whether an operator can be asked, and the state of
// the console.
func (h *Process) updateReachable() {
	away := uint64(0)
	if h.operator != nil && !h.operator.Reachable() || h.attend.away(rtloop.Now()) {
		away = 1
	}
	h.Link.Away.Store(away)
	if h.web == nil {
		return
	}
	console := ipc.ConsoleWaits
	if h.web.Pairing().URL != "" {
		console = ipc.ConsoleListens
	}
	h.Link.Console.Store(console)
}

// openConsole reads labels as lines of standard input.
func openConsole(k keyboard.Config, out io.Writer) rewardsrc.Source {
	return console.Open(console.Options{
		In: os.Stdin, Out: out, Good: k.GoodValue, Bad: k.BadValue,
		Reaction: time.Duration(k.ReactionMS * float64(time.Millisecond)),
	})
}

// showsMoments reports whether an operator can see the moment of a request: in the arena of the
// full screen, or in a console with pictures.
func (h *Process) showsMoments() bool {
	file := h.Session.File
	if h.web != nil && (file.Operator.View.Enabled() || h.Config.View != "" || poseChannels(h.Config.Spec) != nil) {
		return true
	}
	_, drawn := file.Robot.Chosen().(registry.Arena)
	return drawn && terminal.TakesScreen(h.Config.Show)
}

// Key handles a key that gives no label.
func (h *Process) Key(k keyboard.Key) {
	switch k {
	case 'q', keyboard.CtrlC:
		h.Link.Stop.Store(ipc.StopOperator)
	case terminal.DetailsKey:
		h.Display.ToggleDetails()
	case ' ': // the largest key
		h.Link.Stop.CompareAndSwap(ipc.StopNone, ipc.StopRobot)
	default:
		h.attend.input(rtloop.Now())
	}
}

// watchLifeline returns a context that ends when the control process has died or stops waiting for
// this process.
func (h *Process) watchLifeline() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process at the latest
		defer cancel()
		_, _ = io.Copy(io.Discard, h.lifeline)
	}()
	return ctx
}

// run records until the control process has halted the robot or has died.
func (h *Process) run(alive context.Context) (err error) {
	defer func() { err = errors.Join(err, h.Close()) }()
	first, err := h.Planner.First()
	if err != nil {
		return err
	}
	h.Recorder.Snapshot(first)
	h.Display.Begin(h.Session, h.Config.Spec, h.Config.Missing, h.Recorder.Statistics)
	defer h.Display.End() // also after a panic of this goroutine
	for _, text := range h.notes {
		h.event(flightlog.Info, text)
	}
	stop := make(chan struct{})
	end := h.startGoroutines(stop)
	h.Config.Timeline.End("host process")
	h.Link.Ready.Store(1)
	err = h.serve(alive)
	h.labels.took(math.MaxUint64)
	close(stop)
	end()
	h.drain()
	h.Display.End()
	if h.lines != nil { // before the summary
		_ = h.lines.Close() // never an error
	}
	return err
}

// startGoroutines starts heartbeat, planner, belief saver and tidier. The returned function waits
// for their end after stop is closed.
func (h *Process) startGoroutines(stop chan struct{}) (end func()) {
	var beating sync.WaitGroup
	beating.Go(func() { h.beat(stop) })
	endSaver := h.StartSaver()
	endTidying := startTidying(h.Session.File.Log, h.Planner.Events, TidyEvery)
	endPictures := h.startRecordingPictures()
	planned := make(chan struct{})
	go func() {
		defer close(planned)
		if err := h.Planner.run(stop); err != nil {
			recorder.Offer(h.Planner.Events, flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
		}
	}()
	return func() {
		beating.Wait()
		select {
		case <-planned:
		case <-time.After(lastSearch): // the log must be closed even if a GPU hangs
			h.event(flightlog.Error, ErrSearchLeft.Error())
		}
		endSaver()
		endTidying()
		endPictures()
	}
}

var errOrphaned = errors.New(flightlog.OrphanedEvent + "; " +
	"the robot stopped only if it has its own deadman: check the robot first")

// serve records until the control process has ended the run. A wake of the control process starts
// each round.
func (h *Process) serve(alive context.Context) error {
	for {
		ended := h.Link.Ended.Load() != 0 // before the last look at the rings
		h.Link.Steps.Note(ipc.RecorderRound, true)
		if err := h.TakeTicks(); err != nil {
			return err
		}
		h.TakeNotes()
		h.takeStop()
		h.Link.Steps.Note(ipc.RecorderRound, false)
		if ended {
			return nil
		}
		h.Link.TickWake.Wait(idleRound)
		if alive.Err() != nil && h.Link.Ended.Load() == 0 {
			h.orphaned = true
			h.event(flightlog.Error, errOrphaned.Error())
			return errors.Join(errOrphaned, h.TakeTicks())
		}
	}
}

// reportStart records and shows how long the phases of the start took. t is the first tick.
func (h *Process) reportStart(t *controller.Tick) {
	timeline := &h.Config.Timeline
	if timeline.Began == 0 { // not from the command run
		return
	}
	timeline.Phases = append(timeline.Phases, ipc.Phase{Name: "first tick", End: t.Done})
	h.event(flightlog.Info, timeline.String())
}

// StartSaver starts the belief saver. The returned function ends it with the last belief, after the
// planner.
func (h *Process) StartSaver() (end func()) {
	if h.saver == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.saver.run()
	}()
	return func() {
		close(h.saver.ended)
		<-done
		last, _, err := h.Link.NewestState()
		if err := errors.Join(err, h.saver.finish(last)); err != nil {
			h.event(flightlog.Error, err.Error())
		}
	}
}

// drain records the last plans, refusals and the cause of a stop.
func (h *Process) drain() {
	h.saveFormer()
	h.saving.Wait()
	h.TakeNotes()
	h.Intake.Flush()
	h.takeStop()
	if h.fault() != controller.FaultNone {
		h.event(flightlog.Error, flightlog.HaltedEvent+h.halted.String())
	}
	if n := h.Link.Waited.Load(); n > 0 {
		h.event(flightlog.Warn, fmt.Sprintf("the simulated robot, and its time, stood still for %d ticks "+
			"because the host was slow (run.simulator_wait_s)", n))
	}
}

// event records and shows an event of now.
func (h *Process) event(level flightlog.Level, text string) {
	h.Recorder.Event(flightlog.Event{At: rtloop.Now(), Level: level, Text: text})
}

// takeWarnings records and shows the warnings of the control process.
func (h *Process) takeWarnings() {
	for {
		text, ok := h.Link.NextWarning()
		if !ok {
			return
		}
		h.event(flightlog.Warn, text)
	}
}

// takeStop takes the newest cause of a stop. It records a cause that does not end the run at once,
// and drain records the last one.
func (h *Process) takeStop() {
	r, fresh := h.Link.NewestStop()
	if !fresh {
		return
	}
	h.halted = r
	if r.Final == 0 {
		reset := h.Session.Invoked.OperatorCommand("reset")
		h.event(flightlog.Error, "robot stopped: "+r.String()+"; fix the cause, then: "+reset)
	}
}

// fault returns the reason why the control process halted the robot.
func (h *Process) fault() controller.Fault {
	if code := h.Link.Ended.Load(); code > 1 {
		return controller.Fault(code - 1)
	}
	return controller.FaultNone
}

func (h *Process) outcome() recorder.Outcome {
	o := recorder.Outcome{
		Tally: h.Recorder.Statistics, Robot: h.Config.Spec.Name, LogPath: h.logPath, Posture: h.Config.Posture,
		Waited: h.Link.Waited.Load(), Demoted: h.Link.Demoted.Load(),
	}
	if fault := h.fault(); fault != controller.FaultNone {
		o.Fault, o.Found = fault.String(), h.halted.Found()
	}
	return o
}

// TakeTicks takes all ticks in the ring, each with its requests and with the operator's labels.
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
		if h.watcher != nil {
			h.watcher.Watch(t.Index, t.SenseAt, t.Reward, t.Flags.Has(controller.FlagReward))
		}
		h.Intake.NoteTick(t)
		if err := h.takeSwitches(t); err != nil {
			return err
		}
		h.labels.took(t.Index + 1)
		h.takeRequests()
		h.TakeLabels()
		h.Recorder.Tick(t)
		if h.Recorder.Statistics.Ticks == 1 {
			h.reportStart(t)
		}
		h.noteFormer(t)
		h.noteMode(t)
		h.Link.ReleaseTick()
	}
}

// takeSwitches records the switches of the task up to a tick.
func (h *Process) takeSwitches(t *controller.Tick) error {
	for {
		next, b, ok, err := h.Link.NextSwitch(t.Index)
		if !ok || err != nil {
			return err
		}
		if b.Name == ipc.FormerTask {
			h.saveFormer()
			h.former = &formerTask{b, next}
			h.labels.switched(next, unknownSessions)
			continue
		}
		h.labels.switched(next, func() []taskstore.Session { return h.sessionsOf(b.Name, b.Hash) })
		h.Recorder.Switch(
			flightlog.Snapshot{Next: next, Hash: b.Hash, State: b.State, Noise: b.Noise, Task: b.Name}, t.Done)
	}
}

// noteMode records when an operator's robot is armed or disarmed. takeStop records stops. A
// simulator arms without an operator.
func (h *Process) noteMode(t *controller.Tick) {
	mode := t.Mode()
	if mode == h.mode || !h.Session.File.Safety.Attended() {
		return
	}
	h.mode = mode
	if mode != controller.Stopped {
		h.Recorder.Event(flightlog.Event{At: t.Done, Level: flightlog.Info, Text: "robot " + mode.String()})
	}
}

func (h *Process) takeRequests() {
	for {
		r, ok := h.Link.NextRequest()
		if !ok {
			return
		}
		h.Intake.Ask(r)
		h.attend.note(r)
	}
}

// TakeLabels takes labels while the robot has room for them; the others wait in the device. It
// takes a bounded number, since a refused label needs no room. After the end of the run it takes
// none: the robot would not apply an acknowledged label.
func (h *Process) TakeLabels() {
	h.updateReachable()
	var one [1]rewardsrc.Label
	for range ipc.LabelSlots {
		if h.Link.Ended.Load() != 0 || !h.Link.HasRoom() || h.Intake.Source.Poll(one[:]) == 0 {
			break
		}
		h.Link.Steps.Note(ipc.Intake, true)
		starts := h.attend.starts()
		h.attend.input(rtloop.Now())
		if ack, ok := h.Intake.Source.(rewardsrc.Acknowledger); starts && ok {
			ack.Refuse(one[0], errStarts)
		} else if !starts {
			h.Intake.Pass(one[0], h.Link.Push)
		}
		h.Link.Steps.Note(ipc.Intake, false)
	}
	h.Intake.Report()
	h.noteStart()
}

// noteStart records that the operator's first input started the robot.
func (h *Process) noteStart() {
	starts := h.attend.starts()
	if h.awaited && !starts {
		h.event(flightlog.Info, "the operator started the robot")
	}
	h.awaited = starts
}

// TakeNotes records the warnings of the control process, and the planner's plans, snapshots and
// events.
func (h *Process) TakeNotes() {
	h.takeWarnings()
	for {
		select {
		case p := <-h.Planner.Plans:
			h.Recorder.Plan(p)
		case s := <-h.Planner.Snapshots:
			h.Recorder.Snapshot(s)
		case e := <-h.Planner.Events:
			h.Recorder.Event(e)
		default:
			return
		}
	}
}

// beat writes the heartbeat while planner and recorder make progress.
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

// Close releases the operator's device and closes the log.
func (h *Process) Close() error {
	err := errors.Join(h.Intake.Source.Halt(), h.haltWeb())
	if h.keys != nil {
		err = errors.Join(err, h.keys.Halt())
	}
	log := h.Recorder.Log
	if log == nil {
		return err
	}
	logErr := errors.Join(log.WriteTiming(h.Recorder.Statistics.Timing()), log.Close())
	if h.Recorder.Err != nil { // later errors have the same cause
		logErr = h.Recorder.Err
	}
	return errors.Join(err, logErr)
}
