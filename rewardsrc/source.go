package rewardsrc

// Source is where labels come from: a keyboard, a button, a simulated
// operator, a log. All methods are called by one goroutine.
type Source interface {
	// Ask shows the operator that a label is wanted, and for what; it is
	// called again with the same ID when the request is closed. It never
	// blocks.
	Ask(Request)
	// Poll copies the labels that came since the last poll to dst and
	// returns their number; what does not fit stays for the next poll. It
	// never blocks.
	Poll(dst []Label) int
	// Halt releases the device. Labels that were not polled are lost.
	Halt() error
}

// Kind says what an operator expressed.
type Kind uint8

// The kinds of a label.
const (
	// Value is a reward, in Label.Value.
	Value Kind = iota + 1
	// CantTell closes the open request without a reward.
	CantTell
	// Undo takes back an earlier label: Label.Undoes, or the newest that
	// still counts where that is 0.
	Undo
)

// Mode says how a label was given; it chooses the credit window of one that
// answers no request.
type Mode uint8

// The modes of a label.
const (
	// Press is one press: an answer, or a remark about what was just seen.
	Press Mode = iota
	// Held is one of a stream, given while an axis is deflected or a key held.
	Held
)

// NoTick in Label.Tick says that the source does not know the tick.
const NoTick = ^uint64(0)

// Label is what an operator, or an oracle, said. It is plain data of a fixed
// size: it travels through shared memory.
type Label struct {
	// ID is unique within a log; given before the label is made durable.
	// 0 means that none was given yet.
	ID uint64
	// Request is the ID of the request that this answers, 0 if nobody asked.
	Request uint64
	// Tick is the tick whose state this is about, where the source knows it
	// (a scripted operator that answers at once); NoTick otherwise.
	Tick uint64
	// At is the moment of the press, CLOCK_MONOTONIC nanoseconds.
	At int64
	// Undoes is the ID of the label that an Undo takes back; 0: the newest.
	Undoes uint64
	// Value is the reward. Finite; |Value| is usually at most 1.
	Value float64
	// Weight is the confidence, in (0, 1]; 0 stands for 1.
	Weight float64
	// Kind says which of the fields above matter.
	Kind Kind
	// Mode says how it was given.
	Mode Mode
}

// RequestState says where a request is in its life.
type RequestState uint8

// The states of a request.
const (
	Open     RequestState = iota + 1 // a label is wanted
	Answered                         // it was answered, also by "can't tell"
	Expired                          // nobody answered in time
)

// Request asks for a label of one moment. It is plain data of a fixed size: it
// travels through shared memory.
type Request struct {
	ID    uint64       // 1, 2, 3, ... within a run
	Tick  uint64       // the tick whose state the label shall be about
	At    int64        // when that state was sensed, CLOCK_MONOTONIC ns
	Until uint64       // the tick at which the request expires
	DGap  float64      // what a label would teach: log(1 + w ‖φ‖²_{V⁻¹}), nats
	State RequestState // Open when asked; otherwise how it ended
}

// Watcher is implemented by sources that look at the simulator's reward: a
// scripted operator does, a person with a keyboard does not.
type Watcher interface {
	// Watch is called once for each tick, in order, before Ask and Poll of
	// that tick: by the agent in lockstep, by the host process for each
	// tick that it reads from the tick ring otherwise (ticks that the ring
	// dropped are missing). at is when the state was sensed and reward the
	// simulator's reward of that state; ok is false when there was none. It
	// never blocks.
	Watch(tick uint64, at int64, reward float64, ok bool)
}

// Acknowledger is implemented by sources that can show what became of a
// label. Both methods are called by the goroutine that calls Poll, once for
// each polled label, and never block.
type Acknowledger interface {
	// Acknowledge says that the label is on disk and on its way to the
	// robot. Its ID is set.
	Acknowledge(Label)
	// Refuse says that the label was dropped and does not count, and why,
	// such as a full ring. The operator may press again.
	Refuse(label Label, reason error)
}

// Reachable is implemented by sources whose device can go away and come back:
// a remote that was switched off, a console that nobody has open. A robot asks
// nothing while nobody can be reached; it goes on doing what it does.
type Reachable interface {
	// Reachable reports whether a request would be seen and could be
	// answered. It never blocks.
	Reachable() bool
}
