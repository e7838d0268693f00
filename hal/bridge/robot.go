package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"optibfm/hal"
	"optibfm/hal/monotonic"
)

// ErrLost is wrapped, with the cause, by the errors of all calls after the
// connection has failed or the server has violated the protocol. The server halts
// its robot when a connection ends.
var ErrLost = errors.New("bridge: the robot is lost")

// ErrStale is the error of Sense in free mode when the newest sample is older than
// stale_ms.
var ErrStale = errors.New("bridge: sense: the newest sample is too old; " +
	"see whether the server keeps up, or raise robot.bridge.stale_ms")

// maxUnanswered is the number of requests in a row that a server may leave
// unanswered before the robot is lost.
const maxUnanswered = 1 << 12

// Robot is a robot in another process, made by Dial. One goroutine uses it. Sense
// and Act allocate nothing unless they fail.
type Robot struct {
	sock    *socket
	server  *child // nil: not started by Dial
	welcome welcome
	mode    mode
	timeout time.Duration
	stale   time.Duration
	halting time.Duration // the longest wait of Arm, in free mode, and Halt
	patient bool          // the server is a simulator that may be late, in free mode
	deadman time.Duration // 0 in lockstep

	out      []byte               // the frame to send
	seq      uint32               // of the last request; the hello was 0
	answered uint32               // of the last request that was answered
	sent     [maxUnanswered]kind  // of request n, at n modulo its length
	asked    [maxUnanswered]int64 // the time of request n
	limit    int                  // bytes of a payload that the server may send
	halted   bool
	lost     error // not nil: every call returns it

	next    sample // of the last state frame
	origin  int64  // lockstep: the time at the start of this episode
	nextErr error  // why next is unusable
	fresh   bool   // Sense has not returned it yet
	begun   bool   // a state frame was received
	actErr  error  // free mode: a refused act, for the next Act to return

	sensed    bool // reward is that of the last Sense
	reward    float64
	hasReward bool
}

var (
	_ hal.Robot        = (*Robot)(nil)
	_ hal.Resetter     = (*Robot)(nil)
	_ hal.Rewarder     = (*Robot)(nil)
	_ hal.Backstop     = (*Robot)(nil)
	_ hal.DeadmanTimer = (*Robot)(nil)
	_ hal.Bounder      = (*Robot)(nil)
	_ io.Closer        = (*Robot)(nil)
)

func newRobot(sock *socket, m welcome, timeout, stale, halting time.Duration) *Robot {
	limit := max(stateSize(len(m.spec.Obs)), 2+maxText)
	sock.reserve(headerSize + 2*limit) // an answer, and an unrequested frame after it
	return &Robot{
		sock: sock, welcome: m, mode: m.mode, timeout: timeout, stale: stale, halting: halting,
		out:    make([]byte, 0, headerSize+max(8, 4*len(m.spec.Action))),
		limit:  limit,
		halted: true,
		next:   sample{obs: make([]float32, len(m.spec.Obs))},
	}
}

// Spec returns the channels from the server.
func (r *Robot) Spec() hal.Spec { return r.welcome.spec }

// Task returns the task that the server rewards, "" for none, and the valid values
// of Config.Task.
func (r *Robot) Task() (task string, tasks []string) { return r.welcome.task, r.welcome.tasks }

// EpisodeSteps returns the number of steps in an episode of the task; 0 for a robot
// without episodes.
func (r *Robot) EpisodeSteps() int { return r.welcome.episodeSteps }

// View implements hal.Viewer for a server that Dial started.
func (r *Robot) View() string {
	if r.server == nil {
		return ""
	}
	if _, err := os.Stat(r.server.viewSocket()); err != nil {
		return ""
	}
	return "unix:" + r.server.viewSocket()
}

// CanReset reports whether the server can start episodes.
func (r *Robot) CanReset() bool { return r.welcome.capabilities&canReset != 0 }

// Sense fills obs. In lockstep it returns the state from the last Act or Reset, and
// asks the server only if there was none since the last Sense. In free mode it asks
// the server for its newest sample. Without an answer in time it returns the
// newest one that has arrived, unless that is stale. The first Sense of a simulator
// waits as long as its Arm.
func (r *Robot) Sense(obs []float32) (at int64, err error) {
	if r.lost != nil {
		return 0, r.lost
	}
	if len(obs) != len(r.next.obs) {
		return 0, fmt.Errorf("bridge: sense: obs has the wrong length (%d, want %d)", len(obs), len(r.next.obs))
	}
	if err := r.update(); err != nil {
		return 0, err
	}
	r.fresh = false
	if r.nextErr != nil {
		return 0, r.nextErr
	}
	if r.mode == free && (r.next.at == 0 || monotonic.Now()-r.next.at > int64(r.stale)) {
		return 0, ErrStale
	}
	copy(obs, r.next.obs)
	r.sensed, r.reward, r.hasReward = true, r.next.reward, r.next.hasReward
	return r.origin + r.next.at, nil
}

// update sets next to the newest available sample.
func (r *Robot) update() error {
	if r.fresh && r.mode == lockstep {
		return nil
	}
	timeout := r.timeout
	if !r.begun && r.mode == free && r.patient {
		timeout = r.patience(r.halting)
	}
	err := r.requestState(r.begin(kindSense), timeout)
	if err == errDeadline {
		return nil // keep the newest sample
	}
	return err
}

// Deadman returns the silence after which the server halts its robot. Hello requests
// it, and welcome confirms it. 0 in lockstep.
func (r *Robot) Deadman() time.Duration { return r.deadman }

// Bounds implements hal.Bounder. In free mode a call waits for the server once. In
// lockstep the duration of a simulator's step is unknown; after the timeout the
// robot is lost.
func (r *Robot) Bounds() hal.Bounds {
	if r.mode == lockstep {
		return hal.Bounds{}
	}
	return hal.Bounds{Sense: r.timeout, Act: r.timeout, Arm: r.patience(r.halting), Halt: r.halting}
}

// Act sends the action. In lockstep it returns after the robot's step. In free mode
// it returns at once, and the next Act returns the server's refusal of this one. An
// action that a simulator is too busy to read is lost: a stale sample ends that.
func (r *Robot) Act(action []float32) error {
	if r.lost != nil {
		return r.lost
	}
	if r.halted {
		return hal.ErrHalted
	}
	if err := r.welcome.spec.CheckAction(action); err != nil {
		return err
	}
	if err := r.actErr; err != nil { // of free mode; before a number is used for a frame that is not sent
		r.actErr = nil
		return err
	}
	frame := appendFloats(r.begin(kindAct), action)
	if r.mode == lockstep {
		return r.noteHalted(r.requestState(frame, r.timeout))
	}
	err := r.send(frame, monotonic.After(r.timeout))
	if err == errDeadline && r.patient {
		return nil
	}
	return err
}

// Arm ends the halted state, here and at the server.
func (r *Robot) Arm() error {
	if err := r.request(r.begin(kindArm), r.patience(r.halting)); err != nil {
		return err
	}
	r.halted = false
	return nil
}

// Halt halts the robot. It waits a tenth of a second for the server's confirmation, in free
// mode Config.TimeoutMs if that is more, for that of a simulator Config.SimulatorWait; at most
// five seconds. Without one it closes the connection, after which the server halts its robot, and
// returns an error. It kills a server that Dial started and that does not exit
// within another half second.
func (r *Robot) Halt() error {
	r.halted = true
	err := r.lost
	if err == nil {
		err = r.request(r.begin(kindHalt), r.halting)
	}
	if r.lost != nil && r.server != nil {
		r.server.expire()
	}
	return err
}

// HaltBeside closes the connection, after which the server halts its robot. Any
// goroutine may call it; the robot is then lost.
func (r *Robot) HaltBeside() { r.sock.shut() }

// Reset starts a new episode. It is not for the control thread: its timeout is at
// least ten seconds. Simulators begin each episode at time 0; the times of Sense
// still increase, by one period after the last.
func (r *Robot) Reset(seed uint64) error {
	if !r.CanReset() {
		return fmt.Errorf("bridge: reset: %s cannot be reset (not a simulator)", r.welcome.spec.Name)
	}
	frame := binary.LittleEndian.AppendUint64(r.begin(kindReset), seed)
	r.sensed = false
	if r.mode == free {
		r.next.at = 0 // the old sample belongs to the last episode
	}
	first, last := !r.begun, r.origin+r.next.at
	if err := r.requestState(frame, r.patience(resetTimeout)); err != nil {
		return err
	}
	if r.mode == lockstep && !first {
		r.origin = last + int64(r.welcome.spec.Period) - r.next.at
	}
	return nil
}

// Reward is the task's reward of the state that the last Sense returned.
func (r *Robot) Reward() (reward float64, ok bool) {
	if !r.sensed || !r.hasReward {
		return 0, false
	}
	return r.reward, true
}

// Close halts the robot and ends the connection and a server that Dial started.
// Further calls return ErrLost.
func (r *Robot) Close() error {
	if r.sock.fd < 0 {
		return nil
	}
	var haltErr error
	if r.lost == nil {
		haltErr = r.Halt()
	}
	if r.lost == nil {
		_ = r.send(r.begin(kindBye), monotonic.After(haltTimeout))
		r.lost = fmt.Errorf("%w: it was closed", ErrLost)
	}
	err := errors.Join(haltErr, r.sock.close())
	if r.server != nil {
		r.server.stop()
	}
	return err
}

// begin starts the frame of a new request.
func (r *Robot) begin(k kind) []byte {
	r.seq++
	r.sent[r.seq%maxUnanswered], r.asked[r.seq%maxUnanswered] = k, monotonic.Now()
	b := r.out[:headerSize]
	header{kind: k, seq: r.seq}.put(b)
	return b
}

// patience returns the timeout of a request outside of ticks.
func (r *Robot) patience(least time.Duration) time.Duration { return max(r.timeout, least) }

// request sends a frame whose answer is ok.
func (r *Robot) request(frame []byte, timeout time.Duration) error {
	_, _, err := r.exchange(frame, timeout)
	return err
}

// requestState sends a frame whose answer is a state, which becomes next.
func (r *Robot) requestState(frame []byte, timeout time.Duration) error {
	h, payload, err := r.exchange(frame, timeout)
	if err != nil {
		return err
	}
	return r.take(h, payload)
}

// take makes the state in an answer next.
func (r *Robot) take(h header, payload []byte) error {
	request := h.seq % maxUnanswered
	if err := r.next.decode(h, payload); err != nil {
		return r.lose(during(r.sent[request], err))
	}
	r.nextErr = r.next.check(r.welcome.spec.Obs)
	r.fresh, r.begun = true, true
	if r.mode == free {
		// The server computed the age after this time, so the sample is at
		// most a round trip younger. Clocks of two machines are not compared.
		r.next.at = r.asked[request] - r.next.age
	}
	return nil
}

// exchange sends a request and waits for its answer. Without an answer in time the
// robot is lost, because its state is unknown, except when sensing in free mode: then
// the error is errDeadline.
func (r *Robot) exchange(frame []byte, timeout time.Duration) (header, []byte, error) {
	if r.lost != nil {
		return header{}, nil, r.lost
	}
	deadline := monotonic.After(timeout)
	if err := r.send(frame, deadline); err != nil {
		return header{}, nil, err
	}
	h, payload, err := r.answer(deadline)
	if request := kind(frame[4]); err == errDeadline && !r.mayMiss(request) {
		err = r.lose(fmt.Errorf("bridge: %v: no answer within %v; %s", request, timeout, r.patienceAdvice(timeout)))
	}
	return h, payload, err
}

// patienceAdvice is the remedy for an answer that did not come in time.
func (r *Robot) patienceAdvice(limit time.Duration) string {
	if limit != r.timeout {
		return "check the server"
	}
	return "check the server, or raise robot.bridge.timeout_ms"
}

// mayMiss reports whether the next tick can replace a request without an answer.
func (r *Robot) mayMiss(request kind) bool {
	return r.mode == free && (request == kindSense || request == kindAct)
}

// send writes a frame. A partial frame loses the robot.
func (r *Robot) send(frame []byte, deadline int64) error {
	request := kind(frame[4])
	if r.seq-r.answered > maxUnanswered {
		return r.lose(fmt.Errorf("bridge: %v: no answer to the last %d requests; check the server",
			request, maxUnanswered))
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-headerSize))
	n, err := r.sock.send(frame, deadline)
	if err == nil {
		return nil
	}
	if err == errDeadline && n == 0 && r.mayMiss(request) {
		r.seq-- // the next request has this number
		return err
	}
	return r.lose(fmt.Errorf("bridge: %v: sent %d of %d bytes: %w", request, n, len(frame), err))
}

// answer waits for the answer to the last request. Answers to earlier requests missed
// their deadlines. Their states are samples nevertheless: a server that always needs
// longer than a deadline would otherwise never deliver one.
func (r *Robot) answer(deadline int64) (header, []byte, error) {
	for {
		h, payload, err := r.sock.receive(r.limit, deadline)
		if err == errDeadline {
			return h, nil, err
		}
		if err == nil {
			err = r.inspect(h, payload)
		}
		if err != nil {
			return h, nil, r.lose(during(r.sent[r.seq%maxUnanswered], err))
		}
		if h.kind == kindError {
			err = r.refused(decodeError(payload), h.seq)
		}
		if r.lost != nil || h.seq == r.seq {
			return h, payload, err
		}
		if h.kind == kindState && r.sent[r.seq%maxUnanswered] == kindSense {
			if err := r.take(h, payload); err != nil {
				return h, payload, err
			}
		}
	}
}

// inspect returns an error for a frame that is not the answer to a request.
func (r *Robot) inspect(h header, payload []byte) error {
	if err := r.match(h); err != nil {
		return err
	}
	if err := r.fits(h, payload); err != nil || h.seq != r.seq {
		return err
	}
	return r.unrequested()
}

// match finds the request that a frame answers: the server answers every request
// once and in order, except for acts that succeed in free mode.
func (r *Robot) match(h header) error {
	next := r.answered + 1
	for next != r.seq && r.wanted(next) == 0 && next != h.seq {
		next++
	}
	if h.seq != next {
		return malformed(h.kind.String(), "answer every request once and in order",
			"wrong sequence number (%d, expected %d)", h.seq, next)
	}
	r.answered = h.seq
	return nil
}

// unrequested returns an error for data after the answer to the last request.
func (r *Robot) unrequested() error {
	rest := r.sock.buf[r.sock.start:r.sock.end]
	if len(rest) == 0 {
		return nil
	}
	where, found := "frame", fmt.Sprintf("%d bytes", len(rest))
	if len(rest) >= headerSize {
		h, err := decodeHeader(rest, r.limit)
		if err != nil {
			return err
		}
		where, found = h.kind.String(), fmt.Sprintf("sequence number %d", h.seq)
	}
	return malformed(where, "answer every request once and send nothing else",
		"unrequested (%s, expected nothing after the answer to request %d)", found, r.seq)
}

// wanted returns the kind of the answer to a request, 0 for none.
func (r *Robot) wanted(seq uint32) kind {
	switch k := r.sent[seq%maxUnanswered]; {
	case k == kindArm, k == kindHalt:
		return kindOK
	case k == kindAct && r.mode == free:
		return 0
	}
	return kindState
}

// fits checks the kind and size of an answer.
func (r *Robot) fits(h header, payload []byte) error {
	request, wanted := r.sent[h.seq%maxUnanswered], r.wanted(h.seq)
	size := 0
	switch {
	case h.kind == kindError:
		return nil // decodeError checks it
	case h.kind != wanted && wanted == 0:
		return malformed(h.kind.String(), "answer with nothing or error", "not an answer to %v in free mode", request)
	case h.kind != wanted:
		return malformed(h.kind.String(), "answer with "+wanted.String()+" or error", "not an answer to %v", request)
	case h.kind == kindState:
		size = stateSize(len(r.next.obs))
	}
	if len(payload) != size {
		return wrongLength(h.kind, len(payload), size)
	}
	return nil
}

// refused handles an error frame. It is the error of the last request, or of an act
// of free mode, which the next Act returns. A frame that reports a protocol error,
// or is one, loses the robot.
func (r *Robot) refused(err error, seq uint32) error {
	request := r.sent[seq%maxUnanswered]
	var remote *RemoteError
	switch {
	case !errors.As(err, &remote):
		return r.lose(during(request, err))
	case remote.Code == CodeProtocol:
		return r.lose(err)
	case remote.Request != request.String():
		return r.lose(during(request, wrongRequest(remote, request)))
	}
	if seq == r.seq {
		return err
	}
	if request == kindAct {
		r.actErr = r.noteHalted(err)
	}
	return nil
}

// noteHalted records that the robot halted without a request.
func (r *Robot) noteHalted(err error) error {
	if errors.Is(err, hal.ErrHalted) {
		r.halted = true
	}
	return err
}

// lose closes the connection.
func (r *Robot) lose(cause error) error {
	r.halted = true
	r.lost = fmt.Errorf("%w: %w", ErrLost, cause)
	r.sock.shut()
	return r.lost
}
