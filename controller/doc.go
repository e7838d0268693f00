// Package controller computes the action of every control tick from the
// robot's observations and its operator's labels.
//
// It implements OpTI-BFM (Rupf et al., "Optimistic Task Inference for Behavior
// Foundation Models", 2025). A behaviour foundation model gives features φ(s)
// and a policy π_z(s) for every task embedding z. The task is unknown; its
// reward is modelled as φ(s)ᵀz. Labels are rewards that an operator or an
// oracle gives to single states. They define a belief over z (package
// posterior). The controller follows a z that is either good or informative
// under this belief.
//
// Robot, model and operator are interfaces. A program without a clock, such as a
// test, runs them like this (errors left out):
//
//	planner, err := controller.NewPlanner(cfg, model)
//	agent, err := controller.NewAgent(cfg, controller.Parts{
//		Robot: robot, Source: operator, Model: model, Plans: controller.NewLockstep(planner),
//	})
//	err = agent.Arm(0) // an operator's act: before it the robot does not move
//	tick := controller.NewTick(agent.Shape())
//	for i := range ticks {
//		tick.Index, tick.Elapsed, tick.Flags = i, min(i, 1), 0
//		err = agent.Step(tick) // senses, learns from labels, acts, and fills tick
//	}
//	err = agent.Halt(controller.FaultNone)
//
// The package has no clock, no I/O and no goroutine. Package rtloop has the
// clock, robot and source do the I/O, and the caller of Step chooses the
// thread. Package simulate runs a simulator's episodes.
//
// # A tick
//
// [Agent.Step] runs one control period and fills one [Tick] from left to
// right:
//
//	sense         read the robot's observation of the state s_t
//	guard in      check that it is finite and within the channels' plausible ranges
//	forget        reduce the weight of all labels for the elapsed periods
//	φ, D-gap      compute the features and the information gain of a label
//	ask           open a request, if the gain is large enough and the limits allow it
//	labels        poll the source
//	update        credit each label to its moment, rank-1 update of the belief
//	offer         send state and belief to the planner
//	take z        read the newest plan; limit its direction
//	act π         evaluate the policy's action π_z(s_t)
//	guard out     check that it is finite, apply value limits and rate limits
//	actuate       send it to the robot, if it is armed
//
// Labels are polled after the ask. An oracle that answers at once therefore
// answers within the same tick, as in the paper: z_t is computed with r_t. A
// press since the tick before is also applied in this tick. The gate uses the
// belief before this tick's labels.
//
// Step works on private memory and writes the record last. A record in shared
// memory is only an output.
//
// # Credit
//
// The [Learner] keeps the features of the last ticks, and credits each label
// to the features of the moment that it is about:
//
//   - The answer to a request is about the tick of the request, also if it
//     comes some time after the request expired.
//   - A label with a tick (a simulated operator's) is about that tick.
//   - An unasked press is about a window before it: the states sensed between
//     delay_s + width_s and delay_s earlier ([CreditConfig]). Their features
//     are averaged with triangular weights, largest in the middle, and enter
//     as one rank-1 update. If no state is in the window, the last one before
//     it is used, provided it is near. Labels of a stream, from an axis or a
//     held button, have their own window ([HeldConfig]).
//
// Silence is not a label: it is never a reward of 0. A reward about a moment
// at which the robot was stopped is refused ([StopHistory], [RobotStopped]).
//
// A label enters with weight confidence · ρ^age / σ². Its age counts the
// periods since its moment in which the robot was armed: skipped periods
// count, time disarmed does not. The belief then forgets it like all others,
// so that at any time
//
//	V = D + Σ ρ^age w φ̄φ̄ᵀ        b = Σ ρ^age w r φ̄
//
// An undo (rewardsrc.Undo) removes a label with its current weight; the newest
// 256 labels can be undone. A label with a known ID is refused, also after an
// undo. The tick records the [Outcome] of each label. The agent trusts neither
// source nor host: for any input, at most [MaxLabels] are applied in a tick,
// and each takes a bounded time.
//
// # Labels of a person
//
// With a task prior ([Basis]) the belief is over u with (g, z) = Lu, and the features of
// a label are Lᵀ(e, φ - μ): the residuals e of the prior, which φ does not express, have
// their own coefficients g. With Config.Hypotheses the planner weighs random rewards and
// saved tasks by the labels and draws z around them, while there are few labels. With Config.Offset
// an additional constant feature models the operator's zero, and the belief learns labels on
// the scale Config.Labels for every range of the buttons. With Config.Noise the belief holds
// labels of unit noise, σ is estimated from their residuals, and Student's t gives a label that
// contradicts the others less weight. [Learner.Settle] revises the weights of the newest labels, at
// most one in a tick ([Revision]). Configuration and log keep z: [Config.Mean] and [Config.Spread]
// convert.
//
// # Requests
//
// The [Gate] opens a request if the D-gap, log(1 + ‖φ‖²_{V⁻¹}/σ²), is at
// least κ, no request is open, fewer than requests_per_minute were opened in
// the last 60 s, and no pause is active. A request then ends in one of two ways:
//
//   - A value or "can't tell" answers it. "Can't tell" does not change the belief.
//   - It expires after timeout_s. The gate then pauses for backoff_s, and twice
//     as long after each further expiry, up to backoff_max_s, until an answer comes.
//     Before the first label that counts, the pause does not grow.
//
// With pause hold, the robot stands still in the ticks after the one of an open request (FlagHeld):
// the action is the failsafe output or the last command ([Parts].Hold), within the rate limits. The
// states of held ticks do not enter the history, so no label is about them, their time does not
// count for [Proficiency], and with turn_deg_per_s z does not turn.
//
// With labels_per_minute, κ adapts to the operator: see [Pace]. The agent opens
// no request while the operator cannot be reached ([rewardsrc.Reachable],
// FlagUnreachable).
//
// With stop_when_learnt, the planner estimates which share of the attainable value ẑ attains
// ([Plan].Known), the learner counts the labels that the belief predicted, compares it with a
// constant and averages the labels that it expects ([Evidence]), and [Proficiency] decides from these
// whether the task is learnt (FlagLearnt). For a learnt task the agent asks only while the newest
// label was not predicted, and thompson follows ẑ. With relearn, evidence of a changed task
// (FlagChanged) makes the next tick begin again with the labels since ([Learner.Relearn]). For a
// minute (FlagKeepable) a [rewardsrc.Keep] takes that back. [Agent.SwitchTask] replaces the belief by
// that of a saved task (FlagSwitched).
//
// The source is notified of opened and closed requests. Requests also expire
// while sensing fails. Only an armed robot asks.
//
// # Choosing z
//
// The [Planner] works on copies of state and belief. It plans at the start of
// an episode and every replan_every_ticks:
//
//	ucb           n = 128 candidates ẑ + R⁻¹(2β ξ), ξ uniform in the unit ball;
//	              the one that maximises the minimum over the ensemble of
//	              ψᵀẑ + β‖ψ‖_{V⁻¹}, ψ = ψ(s_t, π_z(s_t), z)
//	ucb_sphere    the same score over n = 512 uniform directions
//	ucb_gradient  the same score, maximised by a few steps of Adam from ẑ; the
//	              best z on the way, ẑ included
//	thompson      z ~ N(ẑ, V⁻¹); with Config.Draw smaller and held in part; ẑ for a learnt task
//	random        a uniform direction; a baseline that does not learn
//	fixed         a given z
//
// Random numbers are seeded by configuration and tick, so a plan does not
// depend on earlier plans. The exception is ucb_gradient, whose optimizer keeps
// its state within an episode. Before the first plan, and for a z with
// ‖z‖ < 1e-9, the agent uses a fixed seeded direction of norm √d (FlagFallbackZ).
//
// [ExploreConfig] limits the z that the agent follows. Until the first applied
// label of the run, z can be that of a vetted task. After that z can be kept
// within an angle of the nearest vetted task, and its turn from tick to tick
// within a rate. The limits apply to the fallback direction too, and in every
// mode. A turn does not grow over skipped ticks. It starts again only for a
// simulator that is reset. Both limits always hold: a turn that would leave the
// cones follows their edge.
//
// # Lockstep and two processes
//
// [Plans] connects the two halves. [Lockstep] calls the planner within Step:
// z_t is planned for s_t and with r_t, as in the paper, and a run is a function
// of configuration, model, seed and what robot and source return. Simulators,
// evaluation and tests use it. In the real-time program the planner runs in
// another process, and states and plans pass through mailboxes in shared
// memory; [State], [Plan] and [Tick] can be bound to such memory. Then z is
// delayed by the planning time. A planner that keeps an old z confirms it
// (Plan.Confirmed). The age of z counts the ticks since then; a z older than
// max_plan_age_ticks halts the robot.
//
// # Safety
//
// A robot starts disarmed: it senses, learns and plans, but does not act.
// [Agent.Arm] is an operator's explicit act; a label never arms. [Lifecycle] is
// the state machine:
//
//	disarmed ── Arm ──> starting ──> armed ── Disarm ──> resting ──> disarmed
//	any ── Stop ──> stopped ── Reset ──> disarmed
//
// Motion begins where the robot is: Arm and the tick after it set the last
// command to the measured positions (hal.Channel.Measured, hal.Meter), and Arm
// refuses positions at which the first command could be a jump ([ErrPosition]).
// In starting the robot moves to the pose of Safety.Start and then blends into
// the policy; in resting it moves to the pose of Safety.Rest and then goes limp
// (hal.Limper). Both are optional ([Motion]). Their states teach nothing, the
// robot does not ask, and no plan is too old. An actuator that does not follow
// stops the robot (FaultFollow).
//
// In a tick with a bad observation, bad features or a bad action, the agent
// repeats the last good action. After guard.max_bad_ticks such ticks in a row
// the next one stops the robot. These stop it at once: a failed Act, a plan that
// is not finite or from the future, a z that is too old, an error of the
// planner in lockstep, and the conditions in [Safety]: an emergency stop, a
// stale sample, a value beyond its limit, a frozen sensor.
//
// A stop calls the robot's Halt, which sets its failsafe output, and latches its
// first cause. Step returns it once as a [*FaultError]. If the caller continues,
// the robot senses and plans and does not move. Labels count only about moments
// before the stop; an undo always counts. [Agent.Present] is the present fault.
// [Agent.Reset] clears the stop when no fault is present, and leaves the robot
// disarmed: a reset is not a restart. Each tick repeats a Halt that failed.
// Disarming is an orderly end of motion with a separate output (hal.Disarmer);
// it latches nothing.
//
// Rate limits apply per period and do not grow over skipped ticks. They start
// from the output that Halt or Disarm sets. At the start of an episode they
// restart only for a simulator that can be reset.
//
// # Episodes
//
// A simulator's episode of n steps has n+1 ticks. The first has
// FlagEpisodeStart. The last has FlagEpisodeEnd: its state is sensed, rewarded
// and labelled, since the return of an episode is the sum of the rewards after
// each step; it has neither plan nor action.
//
// # Replay
//
// Each tick carries a hash of R and b. [Learner] is a function of its inputs
// with the same bits on every CPU. SwitchTask if FlagSwitched, else Relearn after a
// tick with FlagChanged, Advance by Elapsed if FlagArmed, Observe unless
// FlagBadObs, then [Learner.Reapply] for each label and [Learner.Resettle] reproduce
// the hash.
package controller
