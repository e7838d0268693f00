// Package scripted is a simulated operator: a label source that sees the
// task's reward and answers as a person would, or as an oracle.
//
// By default it is the oracle of the literature: every tick is labelled at
// once, with the exact reward. [Config] makes it human, one weakness at a time:
//
//   - mode when_asked: it answers requests and is silent otherwise;
//   - delay_s: it presses that long after what it saw;
//   - blind: its unasked labels do not say which tick they are about, as those
//     of a person with a key do not;
//   - interval_s: it labels unasked at most that often;
//   - mistake_probability: it takes good for bad, so that the reward is
//     mirrored in [reward_low, reward_high];
//   - noise_std: Gaussian noise on what it says;
//   - levels: it has so few buttons, evenly spaced over the range;
//   - absence: it is away for away_s, once in every window of every_s.
//
// They apply in this order: mistake, noise, levels. Somebody who is away sees
// nothing and presses nothing: a label is lost when its state or its press
// falls into an absence.
//
// # Time and determinism
//
// The operator's clock is the time that Watch is given, so that it works in
// simulated and in real time. What it says is a function of its configuration
// and of the calls to it, bit for bit. After New nothing allocates; queues
// are bounded, and what does not fit is counted (see [Operator.Dropped]).
package scripted
