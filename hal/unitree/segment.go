package unitree

import (
	"errors"
	"os"
	"sync/atomic"

	"optibfm/hal/unitree/idl"
	"optibfm/internal/ipc/shm"
)

// segmentVersion changes with the layout of the messages and their meaning.
const segmentVersion = 5

// Command is the request of the control process to the writers.
type Command = uint32

// The commands.
const (
	CommandNone   Command = iota // write nothing
	CommandHold                  // begin to write, and hold the present pose
	CommandFollow                // follow Goal.Position
	CommandDamp                  // damp the motors, if this writer has commanded them
	CommandTake                  // damp the motors in any case
	CommandEnd                   // CommandDamp, then end
)

// Mode is the kind of command that a writer writes.
type Mode = uint32

// The modes.
const (
	ModeIdle    Mode = iota // nothing
	ModeHolding             // the pose in which it was armed
	ModeFollowing
	ModeDamping
	ModeEnded
)

// Goal goes from the control process to the writer.
type Goal struct {
	Epoch    uint64             // of arming: 1, 2, ...; a writer follows the epoch that it armed
	At       int64              // CLOCK_MONOTONIC ns
	Command  Command            //
	Joints   uint32             //
	Position [MaxJoints]float32 // rad
	_        uint32
}

// Report goes from the writer to the control process.
type Report struct {
	At, StateAt int64  // CLOCK_MONOTONIC ns: of this report, of the arrival of the newest good state
	Epoch       uint64 // the newest that was armed, damped or refused
	Deadman     int64  // ns
	Mode        Mode
	Fault       Fault  // why it damps, or refused the epoch
	FaultDetail uint32 // the joint, or a number
	Received    uint32 // good states; only the test with the SDK reads it and BadCRC
	BadCRC      uint32 // states that were dropped
	StandbyLate uint32 // 1: the standby writer is silent for standby_ms
	Battery     int32  // percent; -1: not measured

	Position, Velocity, Torque [MaxJoints]float32
	Temperature                [MaxJoints]float32 // °C
	Quaternion                 [4]float32
	Gyro, Accelerometer        [3]float32
	Foot                       [4]float32
	Remote                     [idl.RemoteSize]uint8
}

// Shared is the memory of the control process and its writers.
type Shared struct {
	segment *shm.Segment
	goals   shm.View[Goal]
	reports shm.View[Report]

	// PrimaryBeat and StandbyBeat are the moments, CLOCK_MONOTONIC ns, at which the writers
	// finished a cycle.
	PrimaryBeat, StandbyBeat *atomic.Uint64
	// StandbyReady is 1 once the standby writer has a state, whose mode_machine its commands must
	// have, and the robot takes its commands.
	StandbyReady *atomic.Uint64
	// Commanding is the state of the commands on the network.
	Commanding *atomic.Uint64
	// Takeover is 1 once the standby writer damps. The primary never writes again.
	Takeover *atomic.Uint64
	// StandbyGUID is the participant of the standby writer, whose commands are ours.
	StandbyGUID [2]*atomic.Uint64

	controlMark, primaryMark, standbyMark *atomic.Uint64
}

// The values of Shared.Commanding.
const (
	CommandingNot   = iota // no command was ever written
	CommandingNow          // the primary writes
	CommandingEnded        // the last command damped, and the primary has ended
)

func sharedLayout(s *Shared) shm.Layout {
	l := shm.Layout{Version: segmentVersion, Sections: []shm.Section{
		{Name: "goals", Kind: shm.KindMailbox, Size: s.goals.Size()},
		{Name: "reports", Kind: shm.KindMailbox, Size: s.reports.Size()},
	}}
	for name := range s.words() {
		l.Sections = append(l.Sections, shm.Section{Name: name, Kind: shm.KindWord})
	}
	return l
}

// words iterates over the words in a fixed order.
func (s *Shared) words() func(yield func(string, **atomic.Uint64) bool) {
	return func(yield func(string, **atomic.Uint64) bool) {
		for _, w := range []struct {
			name string
			word **atomic.Uint64
		}{
			{"primary beat", &s.PrimaryBeat}, {"standby beat", &s.StandbyBeat}, {"standby ready", &s.StandbyReady},
			{"commanding", &s.Commanding}, {"takeover", &s.Takeover},
			{"standby guid 0", &s.StandbyGUID[0]}, {"standby guid 1", &s.StandbyGUID[1]},
			{"control mark", &s.controlMark}, {"primary mark", &s.primaryMark}, {"standby mark", &s.standbyMark},
		} {
			if !yield(w.name, w.word) {
				return
			}
		}
	}
}

func newShared() (*Shared, error) {
	s := new(Shared)
	var err1, err2 error
	s.goals, err1 = shm.NewView[Goal]()
	s.reports, err2 = shm.NewView[Report]()
	return s, errors.Join(err1, err2)
}

func (s *Shared) bind(segment *shm.Segment) (err error) {
	s.segment = segment
	for name, word := range s.words() {
		var found error
		*word, found = segment.Word(name)
		err = errors.Join(err, found)
	}
	return err
}

// CreateShared returns the segment of a control process.
func CreateShared() (*Shared, error) {
	s, err := newShared()
	if err != nil {
		return nil, err
	}
	segment, err := shm.Create(sharedLayout(s))
	if err != nil {
		return nil, err
	}
	return s, s.bind(segment)
}

// File returns the descriptor for OpenShared in another process.
func (s *Shared) File() *os.File { return s.segment.File() }

// Close unmaps the segment. Do not use an end after it.
func (s *Shared) Close() error { return s.segment.Close() }

// OpenShared maps the segment of an inherited descriptor.
func OpenShared(file *os.File) (*Shared, error) {
	s, err := newShared()
	if err != nil {
		return nil, err
	}
	segment, err := shm.Open(file, sharedLayout(s))
	if err != nil {
		return nil, err
	}
	return s, s.bind(segment)
}

// Goals is the writer's end of the goals.
type Goals struct {
	box  *shm.MailboxReader
	view shm.View[Goal]
}

// Goals takes the end.
func (s *Shared) Goals() (*Goals, error) {
	box, err := s.segment.MailboxReader("goals")
	return &Goals{box, s.goals}, err
}

// Newest returns a copy of the newest goal. fresh reports the first return of a goal; ok is false
// before the first.
func (g *Goals) Newest() (goal Goal, fresh, ok bool) {
	b, fresh := g.box.Read()
	if b == nil {
		return goal, false, false
	}
	return *g.view.At(b), fresh, true
}

// Reports is the writer's end of the reports.
type Reports struct {
	box  *shm.MailboxWriter
	view shm.View[Report]
}

// Reports takes the end.
func (s *Shared) Reports() (*Reports, error) {
	box, err := s.segment.MailboxWriter("reports")
	return &Reports{box, s.reports}, err
}

// Publish sends a report.
func (r *Reports) Publish(report *Report) {
	*r.view.At(r.box.Buffer()) = *report
	r.box.Publish()
}
