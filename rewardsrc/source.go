package rewardsrc

// Source is where labels come from: a keyboard, a button, a simulated
// operator, a log. One goroutine calls all methods.
type Source interface {
	// Ask shows the operator a request for a label. It is called again with
	// the same ID when the request is closed. It never blocks.
	Ask(Request)
	// Poll copies the labels that arrived since the last poll to dst and
	// returns their number. Labels that do not fit stay for the next poll. It
	// never blocks.
	Poll(dst []Label) int
	// Halt releases the device. Labels that were not polled are lost.
	Halt() error
}

// Kind is the kind of a label.
type Kind uint8

// The kinds of a label.
const (
	// Value is a reward, in Label.Value.
	Value Kind = iota + 1
	// CantTell closes the open request without a reward.
	CantTell
	// Undo takes back an earlier label: Label.Undoes, or the newest that
	// still counts if that is 0.
	Undo
	// Comparison says how much better the current moment is than the one
	// controller.credit.compare_s before, in Label.Value: below 0 for worse.
	Comparison
	// Goal says that the robot should be in the current state. Label.Value is
	// the reward of that state, above that of the average state.
	Goal
	// Keep takes back that the task has changed: the former belief returns, with all labels given
	// since.
	Keep
)

// Teaches reports whether a label of this kind has a value that enters the
// belief.
func (k Kind) Teaches() bool { return k == Value || k == Comparison || k == Goal }

// Answers reports whether a label of this kind can answer a request. The other
// kinds are about the moment of the press.
func (k Kind) Answers() bool { return k == Value || k == CantTell }

// Mode is the way in which a label was given. It selects the credit window of
// a label that answers no request.
type Mode uint8

// The modes of a label.
const (
	// Press is one press: an answer, or a remark about what was just seen.
	Press Mode = iota
	// Held is one of a stream, given while an axis is deflected or a key held.
	Held
)

// NoTick in Label.Tick means that the source does not know the tick.
const NoTick = ^uint64(0)

// Label is the statement of an operator or an oracle. It is plain data of a
// fixed size: it travels through shared memory.
type Label struct {
	// ID is unique within a log. It is assigned before the label is made
	// durable; 0 means not assigned yet.
	ID uint64
	// Request is the ID of the request that this answers, 0 for none.
	Request uint64
	// Tick is the tick of the labelled state, if the source has it (a
	// scripted operator that answers at once); NoTick otherwise.
	Tick uint64
	// At is the moment of the press, CLOCK_MONOTONIC nanoseconds.
	At int64
	// Undoes is the ID of the label that an Undo takes back; 0: the newest.
	Undoes uint64
	// Value is the reward, or a difference of rewards, see Kind. Finite; |Value| is usually at most
	// 1.
	Value float64
	// Weight is the confidence, in (0, 1]; 0 stands for 1.
	Weight float64
	// Kind selects which of the fields above matter.
	Kind Kind
	// Mode is the way in which the label was given.
	Mode Mode
}

// RequestState is the state of a request.
type RequestState uint8

// The states of a request.
const (
	Open     RequestState = iota + 1 // a label is wanted
	Answered                         // it was answered, also by "can't tell"
	Expired                          // no answer came in time
)

// Request asks for a label of one moment. It is plain data of a fixed size: it
// travels through shared memory.
type Request struct {
	ID    uint64       // 1, 2, 3, ... within a run
	Tick  uint64       // the tick of the state to label
	At    int64        // when that state was sensed, CLOCK_MONOTONIC ns
	Until uint64       // the tick at which the request expires
	DGap  float64      // information gain of a label: log(1 + w ‖φ‖²_{V⁻¹}), nats
	State RequestState // Open when asked; otherwise how it ended
}

// Watcher is implemented by sources that see the simulator's reward, such as a
// scripted operator.
type Watcher interface {
	// Watch is called once for each tick, in order, before Ask and Poll of
	// that tick. In lockstep the agent calls it. Otherwise the host process
	// calls it for each tick that it reads from the tick ring; dropped ticks
	// are missing. at is when the state was sensed and reward the simulator's
	// reward of that state; ok is false when there was none. It never blocks.
	Watch(tick uint64, at int64, reward float64, ok bool)
}

// Acknowledger is implemented by sources that can show the outcome of a label.
// The goroutine that calls Poll calls one of the methods once for each polled
// label. They never block.
type Acknowledger interface {
	// Acknowledge reports that the label is on disk and on its way to the
	// robot. Its ID is set.
	Acknowledge(Label)
	// Refuse reports that the label was dropped and does not count, and the
	// reason, such as a full ring. The operator may press again.
	Refuse(label Label, reason error)
}

// Reachable is implemented by sources with a device that can go away and come
// back, such as a remote that was switched off, or a console without a
// browser. While the operator is not reachable the robot asks nothing and
// otherwise continues.
type Reachable interface {
	// Reachable reports whether a request would be seen and could be
	// answered. It never blocks.
	Reachable() bool
}
