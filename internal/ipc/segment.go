package ipc

import (
	"errors"
	"math/bits"
	"os"
	"sync/atomic"
	"time"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/ipc/shm"
	"optibfm/rewardsrc"
)

// segmentVersion changes with the sections and their meaning. shm checks the sizes.
const segmentVersion = controller.LayoutVersion<<16 | 10

// The sections of the segment between the control and the host process.
const (
	sectionTicks    = "ticks"    // ring, control to host: every tick; full: dropped, the recorder sees the gap
	sectionStates   = "states"   // mailbox, control to host: the newest state and belief
	sectionRequests = "requests" // ring, control to host: requests opened and closed
	sectionPlans    = "plans"    // mailbox, host to control: the newest plan
	sectionLabels   = "labels"   // ring, host to control: durable labels; full: the press is refused
	sectionStops    = "stops"    // mailbox, control to host: the newest stopReport
	sectionSwitches = "switches" // ring, control to host: switches of the task; full: the switch is refused
	sectionPresses  = "presses"  // ring, control to host: presses of the robot's buttons; full: dropped
	sectionWarnings = "warnings" // ring, control to host: warnings; full: refused

	// The host also has a word for each activity.
	wordHostBeat = "host beat" // the host's heartbeat: its time, CLOCK_MONOTONIC ns
	wordReady    = "ready"     // the host is ready: 1
	wordStop     = "stop"      // the host asks for an end or a stop: a stopReason
	wordAway     = "away"      // the operator's device is missing: 1
	wordConsole  = "console"   // state of the web console: a ConsoleState
	wordEnded    = "ended"     // the control process has halted the robot: 1 + controller.Fault
	wordWaited   = "waited"    // periods for which a simulated robot has waited for the host
	wordDemoted  = "demoted"   // rtloop.Live.Demoted

	wordTickWake  = "tick wake"  // wakes the recorder: a Wake
	wordStateWake = "state wake" // wakes the planner: a Wake
)

// Words are the counters and flags that both processes see.
type Words struct {
	HostBeat, Ready, Stop, Away, Console, Ended, Waited, Demoted *atomic.Uint64
	Steps                                                        HostSteps

	// TickWake and StateWake wake the recorder and the planner of the host process.
	TickWake, StateWake Wake
}

// OpenWords opens all words.
func OpenWords(segment *shm.Segment) (w Words, err error) {
	var errs [11]error
	w.HostBeat, errs[0] = segment.Word(wordHostBeat)
	w.Ready, errs[1] = segment.Word(wordReady)
	w.Stop, errs[2] = segment.Word(wordStop)
	w.Away, errs[3] = segment.Word(wordAway)
	w.Ended, errs[4] = segment.Word(wordEnded)
	w.Waited, errs[6] = segment.Word(wordWaited)
	w.Demoted, errs[5] = segment.Word(wordDemoted)
	w.Steps, errs[7] = openHostSteps(segment)
	w.TickWake.word, errs[8] = segment.Word(wordTickWake)
	w.StateWake.word, errs[9] = segment.Word(wordStateWake)
	w.Console, errs[10] = segment.Word(wordConsole)
	return w, errors.Join(errs[:]...)
}

// stopReason is a request of the host process. The host process cannot request a movement.
type stopReason = uint64

const (
	StopNone     stopReason = iota
	StopOperator            // the operator ends the run
	StopRobot               // the operator stops the robot; cleared when the robot is stopped
)

// ConsoleState is the state of the web console.
type ConsoleState = uint64

const (
	ConsoleNone    ConsoleState = iota // the run has none
	ConsoleListens                     // browsers can reach it
	ConsoleWaits                       // it has no address, and tries again
)

const (
	LabelSlots   = 64 // capacity of the label ring
	requestSlots = 64
	switchSlots  = 2
	pressSlots   = 16
	warningSlots = 8
)

var (
	labelView   = mustView[rewardsrc.Label]()
	requestView = mustView[rewardsrc.Request]()
	stopView    = mustView[StopReport]()
	pressView   = mustView[hal.Press]()
	warningView = mustView[text]()
)

func mustView[T any]() shm.View[T] {
	v, err := shm.NewView[T]()
	if err != nil {
		panic(err) // a type with pointers: a mistake in this package
	}
	return v
}

// take takes the oldest message from a ring.
func take[T any](ring *shm.Consumer, view shm.View[T]) (message T, ok bool) {
	slot, ok := ring.Peek()
	if ok {
		message = *view.At(slot)
		ring.Release()
	}
	return message, ok
}

// put adds a message to a ring. A full ring drops it.
func put[T any](ring *shm.Producer, view shm.View[T], message T) {
	if slot, ok := ring.Reserve(); ok {
		*view.At(slot) = message
		ring.Commit()
	}
}

// TickStall is the longest stall of a disk without dropped ticks, and of planner or recorder with a
// heartbeat.
const TickStall = 10 * time.Second

// TickSlots returns the capacity of the tick ring: the ticks of TickStall, rounded up to a power of
// two.
func TickSlots(period time.Duration) int {
	const least, most = 1 << 8, 1 << 16
	ticks := min(uint64(TickStall/max(period, 1)), most)
	return max(least, 1<<bits.Len64(max(ticks, 1)-1))
}

// Segment is the shared memory of the two processes.
type Segment = shm.Segment

// CreateIn creates the segment of a run in an empty file (NewFile), whose ownership it takes if it
// succeeds. The control process calls it.
func CreateIn(file *os.File, s controller.Shape, period time.Duration) (*Segment, error) {
	return shm.CreateIn(file, layout(s, period))
}

// NewFile returns an empty file for CreateIn.
func NewFile() (*os.File, error) { return shm.NewFile() }

// Open opens the segment behind an inherited descriptor. The host process calls it.
func Open(f *os.File, s controller.Shape, period time.Duration) (*Segment, error) {
	return shm.Open(f, layout(s, period))
}

// New returns a segment that lies in this process only. Tests use it.
func New(s controller.Shape, period time.Duration) (*Segment, error) {
	return shm.New(layout(s, period))
}

// layout returns the sections. Both processes compute it.
func layout(s controller.Shape, period time.Duration) shm.Layout {
	sections := []shm.Section{
		{Name: sectionTicks, Kind: shm.KindRing, Size: controller.TickSize(s), Slots: TickSlots(period)},
		{Name: sectionStates, Kind: shm.KindMailbox, Size: controller.StateSize(s)},
		{Name: sectionRequests, Kind: shm.KindRing, Size: requestView.Size(), Slots: requestSlots},
		{Name: sectionPlans, Kind: shm.KindMailbox, Size: controller.PlanSize(s)},
		{Name: sectionLabels, Kind: shm.KindRing, Size: labelView.Size(), Slots: LabelSlots},
		{Name: sectionStops, Kind: shm.KindMailbox, Size: stopView.Size()},
		{Name: sectionSwitches, Kind: shm.KindRing, Size: switchSize(s), Slots: switchSlots},
		{Name: sectionPresses, Kind: shm.KindRing, Size: pressView.Size(), Slots: pressSlots},
		{Name: sectionWarnings, Kind: shm.KindRing, Size: warningView.Size(), Slots: warningSlots},
	}
	for _, name := range []string{
		wordHostBeat, wordReady, wordStop, wordAway, wordConsole, wordEnded, wordWaited, wordDemoted,
		wordTickWake, wordStateWake,
	} {
		sections = append(sections, shm.Section{Name: name, Kind: shm.KindWord})
	}
	for a := range NumActivities {
		sections = append(sections, shm.Section{Name: wordActivity(a), Kind: shm.KindWord})
	}
	return shm.Layout{Version: segmentVersion, Sections: sections}
}
