package flightlog

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"optibfm/controller"
	"optibfm/flightlog/flightlogpb"
	"optibfm/rewardsrc"
)

// The topics of a log. TopicView is in the files of its pictures, see PictureWriter.
const (
	TopicTick     = "/tick"
	TopicLabel    = "/label"
	TopicRequest  = "/request"
	TopicPlan     = "/plan"
	TopicEvent    = "/event"
	TopicTiming   = "/timing"
	TopicSnapshot = "/snapshot"
	TopicView     = "/view"
)

// topic pairs a topic with its message. Its MCAP channel and schema have the
// index in topics plus one as ID.
type topic struct {
	name    string
	message proto.Message
}

// The indices in topics.
const (
	tickChannel = iota
	labelChannel
	requestChannel
	planChannel
	eventChannel
	timingChannel
	snapshotChannel
	viewChannel
	numChannels
)

// channelSet is a set of indices in topics.
type channelSet uint

const (
	allChannels  = ^channelSet(0)
	logChannels  = viewChannels - 1
	viewChannels = channelSet(1) << viewChannel
)

func (s channelSet) has(channel int) bool { return s&(1<<channel) != 0 }

var topics = [numChannels]topic{
	tickChannel:     {TopicTick, (*flightlogpb.Tick)(nil)},
	labelChannel:    {TopicLabel, (*flightlogpb.Label)(nil)},
	requestChannel:  {TopicRequest, (*flightlogpb.Request)(nil)},
	planChannel:     {TopicPlan, (*flightlogpb.Plan)(nil)},
	eventChannel:    {TopicEvent, (*flightlogpb.Event)(nil)},
	timingChannel:   {TopicTiming, (*flightlogpb.Timing)(nil)},
	snapshotChannel: {TopicSnapshot, (*flightlogpb.Snapshot)(nil)},
	viewChannel:     {TopicView, (*flightlogpb.CompressedImage)(nil)},
}

// Topics lists the topics of a log.
func Topics() []string {
	var names []string
	for i, t := range topics {
		if logChannels.has(i) {
			names = append(names, t.name)
		}
	}
	return names
}

// Plan is a task embedding that the planner published.
type Plan struct {
	Tick     uint64 // whose state and belief it was planned for
	At       int64  // when it was published, ns
	Took     time.Duration
	Score    float64 // the strategy's score of Z, 0 if it has none
	Strategy string
	Z        []float64 // [d]
}

// Level is the severity of an event.
type Level uint8

// The levels of an event.
const (
	Info Level = iota + 1
	Warn
	Error
)

// String names the level.
func (l Level) String() string {
	switch l {
	case Info:
		return "info"
	case Warn:
		return "warn"
	case Error:
		return "error"
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Event is something that a person should know.
type Event struct {
	At     int64 // ns; 0 when written: the newest time that the log has seen
	Level  Level
	Text   string
	Fields map[string]string
}

// Timing summarises the loop since the start of the run.
type Timing struct {
	At      int64  // ns
	Ticks   uint64 // ticks run
	Skipped uint64 // periods skipped
	Late    Percentiles
	Busy    Percentiles
}

// Percentiles of durations.
type Percentiles struct{ P50, P99, P999, Max time.Duration }

// String returns them in µs.
func (p Percentiles) String() string {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return fmt.Sprintf("p50 %.0f, p99 %.0f, p99.9 %.0f, max %.0f µs", us(p.P50), us(p.P99), us(p.P999), us(p.Max))
}

// Snapshot is the whole belief between two ticks.
type Snapshot struct {
	Next  uint64    // index of the first tick that is not included
	Hash  uint64    // posterior.Belief.Hash
	State []float64 // posterior.Belief.State, [controller.Shape.StateLen]
	Noise controller.NoiseState
	Task  string // before tick Next the run switched to the belief of this saved task; "": no switch
}

// tickMessage fills p from t without copying the slices: p is only good for
// marshalling while t stays as it is.
func tickMessage(p *flightlogpb.Tick, t *controller.Tick) {
	p.Index, p.Elapsed = t.Index, t.Elapsed
	p.DeadlineNs, p.WakeNs, p.SenseNs, p.DoneNs = t.Deadline, t.Wake, t.SenseAt, t.Done
	p.Episode, p.Step = t.Episode, t.Step
	p.Flags, p.Fault = uint32(t.Flags), uint32(t.Fault)
	p.Reward, p.NormSq, p.Dgap, p.Logdet = t.Reward, t.NormSq, t.DGap, t.LogDet
	p.Request, p.Hash, p.Kappa = t.Request, t.Hash, t.Kappa
	p.Sigma, p.Zero, p.Counted = t.Sigma, t.Zero, t.Counted
	p.Known, p.KnownMiddle, p.KnownHigh = t.Known.Low, t.Known.Middle, t.Known.High
	p.Predicted = nil
	p.Evidence = nil
	if e := t.Evidence; e != (controller.Evidence{}) {
		p.Evidence = &flightlogpb.Evidence{
			Change: e.Change, Labels: e.Labels, Skill: e.Skill, SkillError: e.SkillError,
			Shortfall: e.Shortfall,
		}
	}
	if n := t.Predicted; n.Of > 0 {
		p.Predicted = &flightlogpb.Predicted{Labels: n.Labels, Of: n.Of, Last: n.Last}
	}
	p.Revised = nil
	if r := t.Revised; r.ID != 0 {
		p.Revised = &flightlogpb.Revision{Id: r.ID, Before: r.Before, After: r.After}
	}
	p.PlanTick, p.PlanConfirmed, p.PlanScore = t.PlanTick, t.PlanConfirmed, t.PlanScore
	p.Reaction = p.Reaction[:0]
	if t.Reaction != (controller.ReactionState{}) {
		p.Reaction = append(p.Reaction, t.Reaction[:]...)
	}
	p.Obs, p.Phi, p.Z, p.Action = t.Obs, t.Phi, t.Z, t.Action
	p.Labels = p.Labels[:0]
	for i := range min(t.NumLabels, controller.MaxLabels) {
		p.Labels = append(p.Labels, appliedMessage(&t.Labels[i]))
	}
}

func appliedMessage(a *controller.AppliedLabel) *flightlogpb.AppliedLabel {
	return &flightlogpb.AppliedLabel{
		Id: a.ID, Request: a.Request, From: a.From, To: a.To, About: a.About, Undoes: a.Undoes,
		Value: a.Value, Confidence: a.Confidence, Weight: a.Weight,
		Kind: flightlogpb.Kind(a.Kind), Outcome: uint32(a.Outcome), AtNs: a.At, Asked: a.Asked,
	}
}

var (
	errShape  = errors.New("the message does not have the log's dimensions")
	errLabels = errors.New("the tick claims more labels than one can have")
	errRange  = errors.New("a field is out of its range")
)

// decodeTick copies p into t.
func decodeTick(t *controller.Tick, p *flightlogpb.Tick) error {
	if len(p.Obs) != len(t.Obs) || len(p.Phi) != len(t.Phi) || len(p.Z) != len(t.Z) || len(p.Action) != len(t.Action) {
		return fmt.Errorf("%w (obs %d, phi %d, z %d, action %d)",
			errShape, len(p.Obs), len(p.Phi), len(p.Z), len(p.Action))
	}
	if n := len(p.Reaction); n != 0 && n != len(t.Reaction) {
		return fmt.Errorf("%w (reaction: %d numbers)", errShape, n)
	}
	if len(p.Labels) > controller.MaxLabels {
		return fmt.Errorf("%w (%d, at most %d)", errLabels, len(p.Labels), controller.MaxLabels)
	}
	*t.Header = controller.Header{
		Index: p.Index, Elapsed: p.Elapsed,
		Deadline: p.DeadlineNs, Wake: p.WakeNs, SenseAt: p.SenseNs, Done: p.DoneNs,
		Episode: p.Episode, Step: p.Step,
		Flags: controller.Flags(p.Flags), Fault: controller.Fault(p.Fault),
		Reward: p.Reward, NormSq: p.NormSq, DGap: p.Dgap, LogDet: p.Logdet,
		Request: p.Request, Hash: p.Hash, Kappa: p.Kappa,
		PlanTick: p.PlanTick, PlanConfirmed: p.PlanConfirmed, PlanScore: p.PlanScore,
		NumLabels: uint64(len(p.Labels)),
		Sigma:     p.Sigma, Zero: p.Zero, Counted: p.Counted,
		Revised: controller.Revision{
			ID: p.Revised.GetId(), Before: p.Revised.GetBefore(), After: p.Revised.GetAfter(),
		},
		Known: controller.Interval{Low: p.Known, Middle: p.KnownMiddle, High: p.KnownHigh},
		Predicted: controller.Predicted{
			Labels: p.Predicted.GetLabels(), Of: p.Predicted.GetOf(), Last: p.Predicted.GetLast(),
		},
		Evidence: controller.Evidence{
			Change: p.Evidence.GetChange(), Labels: p.Evidence.GetLabels(),
			Skill: p.Evidence.GetSkill(), SkillError: p.Evidence.GetSkillError(),
			Shortfall: p.Evidence.GetShortfall(),
		},
	}
	for i, a := range p.Labels {
		kind, err := decodeKind(a.Kind)
		if err != nil {
			return err
		}
		if a.Outcome > 255 {
			return fmt.Errorf("%w (outcome %d)", errRange, a.Outcome)
		}
		t.Labels[i] = controller.AppliedLabel{
			ID: a.Id, Request: a.Request, From: a.From, To: a.To, About: a.About, Undoes: a.Undoes,
			Value: a.Value, Confidence: a.Confidence, Weight: a.Weight,
			Kind: kind, Outcome: controller.Outcome(a.Outcome), At: a.AtNs, Asked: a.Asked,
		}
	}
	copy(t.Reaction[:], p.Reaction)
	copy(t.Obs, p.Obs)
	copy(t.Phi, p.Phi)
	copy(t.Z, p.Z)
	copy(t.Action, p.Action)
	return nil
}

func decodeKind(k flightlogpb.Kind) (rewardsrc.Kind, error) {
	if k < 0 || k > 255 {
		return 0, fmt.Errorf("%w (kind %d)", errRange, k)
	}
	return rewardsrc.Kind(k), nil
}

func labelMessage(l rewardsrc.Label) *flightlogpb.Label {
	return &flightlogpb.Label{
		Id: l.ID, Request: l.Request, Tick: l.Tick, AtNs: l.At, Undoes: l.Undoes,
		Value: l.Value, Weight: l.Weight, Kind: flightlogpb.Kind(l.Kind), Mode: uint32(l.Mode),
	}
}

func decodeLabel(p *flightlogpb.Label) (*rewardsrc.Label, error) {
	kind, err := decodeKind(p.Kind)
	if err != nil {
		return nil, err
	}
	if p.Mode > 255 {
		return nil, fmt.Errorf("%w (mode %d)", errRange, p.Mode)
	}
	return &rewardsrc.Label{
		ID: p.Id, Request: p.Request, Tick: p.Tick, At: p.AtNs, Undoes: p.Undoes,
		Value: p.Value, Weight: p.Weight, Kind: kind, Mode: rewardsrc.Mode(p.Mode),
	}, nil
}

func requestMessage(r rewardsrc.Request) *flightlogpb.Request {
	return &flightlogpb.Request{
		Id: r.ID, Tick: r.Tick, AtNs: r.At, Until: r.Until, Dgap: r.DGap,
		State: flightlogpb.Request_State(r.State),
	}
}

func decodeRequest(p *flightlogpb.Request) (*rewardsrc.Request, error) {
	if p.State < 0 || p.State > 255 {
		return nil, fmt.Errorf("%w (request state %d)", errRange, p.State)
	}
	return &rewardsrc.Request{
		ID: p.Id, Tick: p.Tick, At: p.AtNs, Until: p.Until, DGap: p.Dgap,
		State: rewardsrc.RequestState(p.State),
	}, nil
}

func planMessage(p *Plan) *flightlogpb.Plan {
	return &flightlogpb.Plan{
		Tick: p.Tick, AtNs: p.At, TookNs: int64(p.Took), Score: p.Score, Strategy: p.Strategy, Z: p.Z,
	}
}

func decodePlan(p *flightlogpb.Plan) *Plan {
	return &Plan{
		Tick: p.Tick, At: p.AtNs, Took: time.Duration(p.TookNs), Score: p.Score, Strategy: p.Strategy, Z: p.Z,
	}
}

func eventMessage(e *Event) *flightlogpb.Event {
	return &flightlogpb.Event{AtNs: e.At, Level: flightlogpb.Event_Level(e.Level), Text: e.Text, Fields: e.Fields}
}

func decodeEvent(p *flightlogpb.Event) (*Event, error) {
	if p.Level < 0 || p.Level > 255 {
		return nil, fmt.Errorf("%w (level %d)", errRange, p.Level)
	}
	return &Event{At: p.AtNs, Level: Level(p.Level), Text: p.Text, Fields: p.Fields}, nil
}

func timingMessage(t *Timing) *flightlogpb.Timing {
	return &flightlogpb.Timing{
		AtNs: t.At, Ticks: t.Ticks, Skipped: t.Skipped,
		Late: percentilesMessage(t.Late), Busy: percentilesMessage(t.Busy),
	}
}

func decodeTiming(p *flightlogpb.Timing) *Timing {
	return &Timing{
		At: p.AtNs, Ticks: p.Ticks, Skipped: p.Skipped,
		Late: decodePercentiles(p.Late), Busy: decodePercentiles(p.Busy),
	}
}

func percentilesMessage(p Percentiles) *flightlogpb.Percentiles {
	return &flightlogpb.Percentiles{
		P50Ns: int64(p.P50), P99Ns: int64(p.P99), P999Ns: int64(p.P999), MaxNs: int64(p.Max),
	}
}

func decodePercentiles(p *flightlogpb.Percentiles) Percentiles {
	return Percentiles{
		P50: time.Duration(p.GetP50Ns()), P99: time.Duration(p.GetP99Ns()),
		P999: time.Duration(p.GetP999Ns()), Max: time.Duration(p.GetMaxNs()),
	}
}

func snapshotMessage(s *Snapshot) *flightlogpb.Snapshot {
	return &flightlogpb.Snapshot{
		Next: s.Next, Hash: s.Hash, State: s.State, NoiseSquares: s.Noise.Squares, NoiseCount: s.Noise.Count,
		Task: s.Task, Labels: s.Noise.Labels,
	}
}

func decodeSnapshot(p *flightlogpb.Snapshot) *Snapshot {
	return &Snapshot{
		Next: p.Next, Hash: p.Hash, State: p.State, Task: p.Task,
		Noise: controller.NoiseState{Squares: p.NoiseSquares, Count: p.NoiseCount, Labels: p.Labels},
	}
}
