// Package scripted is a simulated operator: a label source that sees the task's
// reward and answers like a person or like an oracle.
//
// By default it is the oracle of the literature: it labels every tick at once,
// with the exact reward. [Config] adds human weaknesses:
//
//   - mode when_asked: it answers only requests;
//   - delay_s: it presses that long after it saw the state;
//   - blind: its unasked labels do not name their tick, like those of a person;
//   - interval_s: the shortest time between unasked labels;
//   - mistake_probability: it confuses good and bad, which mirrors the reward in
//     [reward_low, reward_high];
//   - noise_std: Gaussian noise on the label;
//   - levels: the number of buttons, evenly spaced over the range;
//   - absence: it is away for away_s, once in every window of every_s.
//
// They apply in this order: mistake, noise, levels. A label is lost when its
// state or its press falls into an absence.
//
// # Time and determinism
//
// The operator's clock is the time passed to Watch, so it works in simulated and
// in real time. The labels are a function of the configuration and of the calls,
// bit for bit. After New nothing allocates. Queues are bounded; [Operator.Dropped]
// counts the labels that did not fit.
package scripted
