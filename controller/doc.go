// Package controller decides: it turns what a robot senses and what its
// operator says into what the robot does.
//
// It implements OpTI-BFM (Rupf et al., "Optimistic Task Inference for Behavior
// Foundation Models", 2025). A behaviour foundation model gives features φ(s)
// and a policy π_z(s) for every task embedding z. The task is unknown; its
// reward is taken to be φ(s)ᵀz. Labels, rewards that an operator or an oracle
// gives to single states, make a belief over z (package posterior), and each z
// that the robot follows is chosen to be good if the belief is right or
// instructive if it is wrong.
//
// There is no clock here, no I/O and no goroutine: package rtloop has the
// clock, the robot and the source do the I/O, and whoever calls Step decides
// on which thread.
//
// # A tick
//
// [Agent.Step] runs one control period and fills one [Tick], from left to
// right:
//
//	sense         the robot's observation of the state s_t
//	guard in      finite, and within the channels' plausible ranges
//	forget        labels lose weight for the periods that have passed
//	φ, D-gap      what is this state, and what would a label of it teach?
//	ask           open a request, if that is enough and the limits allow
//	labels        poll the source
//	update        credit each label to its moment, rank-1 update of the belief
//	offer         state and belief go to the planner
//	take z        the newest plan
//	act π         the policy's action π_z(s_t)
//	guard out     finite, value limits, rate limits
//	actuate       to the robot, if it is armed
//
// Labels are polled after the ask, so that an oracle that answers at once is
// asked, answers and teaches within the same tick, as in the paper: z_t knows
// r_t. A press that came since the tick before is applied in this one all the
// same. The gate has looked at the belief before this tick's labels.
//
// Step works on memory of its own and writes the record last, so that a record
// in shared memory is only ever an output.
//
// # What a label is about
//
// A label that says nothing about its moment would teach the wrong thing, so
// each is credited to the features of the tick that it is about, which the
// [Learner] has kept:
//
//   - The answer to a request is about the request's tick, whenever it comes,
//     also some time after the request expired.
//   - A label with a tick (a simulated operator's) is about that tick.
//   - An unasked press is about a window before it: the states sensed between
//     delay_s + width_s and delay_s earlier ([CreditConfig]). Their features
//     are averaged with triangular weights, greatest in the middle, and enter
//     as one rank-1 update. Where sensing paused and no state is in the
//     window, the last one before it stands in, if it is near. The labels of
//     a stream, from an axis or a button that is held, have a window of their
//     own ([HeldConfig]).
//
// Nothing said is no label: it is never a reward of 0. A reward about a moment
// at which the robot was stopped is refused ([StopHistory], [RobotStopped]).
//
// A label enters with weight confidence · ρ^age / σ². Its age counts the
// periods since its moment in which the robot was armed: skipped periods
// count, time disarmed does not. From then on the belief forgets it like all
// others, so that at any time
//
//	V = D + Σ ρ^age w φ̄φ̄ᵀ        b = Σ ρ^age w r φ̄
//
// With Config.Robust a label that contradicts the belief before it enters with
// less, see posterior.Surprise and posterior.Trust: a mistaken press spoils
// little. The D-gap and the gate go by sure labels nevertheless.
//
// A label can be taken back (rewardsrc.Undo) with the weight that it has by
// then; the newest 256 can. A label whose ID came before is refused, also
// when it was taken back since. What became of each label is in the tick: see
// [Outcome]. Neither source nor host is trusted: whatever is in a label, at
// most [MaxLabels] are applied in a tick, and each costs a bounded time.
//
// # The life of a request
//
// The [Gate] opens a request where the D-gap, log(1 + ‖φ‖²_{V⁻¹}/σ²), is at
// least κ, there is none open, fewer than requests_per_minute were opened in
// the last 60 s, and no pause is on. It is then
//
//   - answered by a value or by "can't tell" (which teaches nothing), or
//   - expired after timeout_s. Then the gate pauses for backoff_s, twice as
//     long each further time up to backoff_max_s, until somebody answers.
//
// With labels_per_minute κ is not fixed but follows the operator: see [Pace].
// Nothing is asked while the source says that nobody can be reached
// ([rewardsrc.Reachable], FlagUnreachable).
//
// The source is shown both. Requests expire also while nothing can be sensed,
// and only an armed robot asks.
//
// # Choosing z
//
// The [Planner] works on copies of state and belief. It plans at the start of
// an episode and every replan_every_ticks:
//
//	ucb           n = 128 candidates ẑ + R⁻¹(2β ξ), ξ uniform in the unit ball;
//	              the one with the greatest min over the ensemble of
//	              ψᵀẑ + β‖ψ‖_{V⁻¹}, ψ = ψ(s_t, π_z(s_t), z)
//	ucb_sphere    the same score over n = 512 uniform directions
//	ucb_gradient  the same score, climbed from ẑ by a few steps of Adam; the best z
//	              on the way, ẑ included
//	thompson      z ~ N(ẑ, V⁻¹)
//	random        a uniform direction, which learns nothing
//	fixed         a given z
//
// Random numbers are seeded by configuration and tick, so a plan does not
// depend on the plans before it, but for ucb_gradient, whose optimizer keeps its
// state within an episode. A z with ‖z‖ < 1e-9 has no direction, and
// before the first plan there is none: a fixed seeded direction of norm √d
// stands in (FlagFallbackZ).
//
// # Lockstep and two processes
//
// [Plans] is the way between the halves. [Lockstep] calls the planner within
// Step: z_t is planned for s_t and with r_t, and a run is a function of
// configuration, model, seed and what robot and source return. That is for
// simulators, evaluation and tests, and it is what the paper does. In the
// real-time program the planner runs in another process, and states and plans
// go through mailboxes in shared memory; [State], [Plan] and [Tick] can be
// bound to such memory. Then z lags by as long as planning takes. A planner
// that is content with an old z says so (Plan.Confirmed); the age of z is the
// ticks since then, and a z older than max_plan_age_ticks halts the robot.
//
// # Safety
//
// A robot starts disarmed: it senses, learns and plans, and does not act.
// [Agent.Arm] is an operator's explicit act; nothing in a label causes it. The
// state machine is [Lifecycle]:
//
//	disarmed ── Arm ──> armed ── Disarm ──> disarmed
//	any ── Stop ──> stopped ── Reset ──> disarmed
//
// A tick with a bad observation, bad features or a bad action is answered with
// the last good action. After guard.max_bad_ticks of them in a row the next
// one stops the robot, as does any of these at once: a failed Act, a plan that
// is not finite or from the future, a z that is too old, an error of the
// planner in lockstep, and what [Safety] names: an emergency stop, a sample
// that is too old, a value beyond its limit, a sensor that stands still.
//
// A stop is the robot's Halt, its failsafe output, and latches with its first
// cause. Step returns it as a [*FaultError], once. A caller that goes on has a
// robot that senses and plans and does not move. Labels count only about moments
// before the stop, and an undo counts at any time. What is wrong then is
// [Agent.Present]. [Agent.Reset] clears the stop when nothing is present any
// more, into disarmed: a reset is no restart. A Halt that failed is repeated in
// every tick. Disarming is something else than a stop: an orderly end of
// moving, to an output of its own (hal.Disarmer), that latches nothing.
//
// Rate limits are per period and do not grow over skipped ticks. They start
// from the output where Halt or Disarm left the actuators, and at the start
// of an episode only where the robot is a simulator that can be reset.
//
// # Episodes
//
// A simulator's episode of n steps has n+1 ticks. The first has
// FlagEpisodeStart. The last has FlagEpisodeEnd: its state is sensed, rewarded
// and labelled, since an episode's return is the sum of the rewards after each
// step, but neither planned for nor acted on.
//
// # Replay
//
// Each tick carries a hash of R and b. [Learner] is a function of its inputs,
// the same bits on every CPU: Advance by Elapsed where FlagArmed, Observe
// where not FlagBadObs, then [Learner.Reapply] for each label gives the hash
// again.
package controller
