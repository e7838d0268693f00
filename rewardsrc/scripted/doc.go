// Package scripted is a simulated operator: a label source that sees the task's
// reward and answers like a person or like an oracle.
//
// By default it is the oracle of the literature: it labels every tick at once,
// with the exact reward. [Config] adds human weaknesses, each off by default.
//
// When it labels:
//
//   - mode when_asked: it answers only requests;
//   - interval_s: the shortest time between unasked labels;
//   - absence: it is away for away_s, once in every window of every_s;
//   - fatigue: the more labels it gave recently, the less often it answers. It
//     recovers when it gives fewer, such as during an absence;
//   - max_labels: it is silent after so many labels;
//   - delay_s: it presses that long after it saw the state;
//   - reaction_min_s, reaction_max_s: and after a random reaction time,
//     log-normal with 95 % between the two, cut there;
//   - blind: its unasked labels do not name their tick, like those of a person.
//
// What it labels, applied in this order when it presses:
//
//   - memory_s: it judges not the labelled state, but what it remembers: the mean
//     of the rewards until the press, each weighted by exp(-age/memory_s). The
//     label still names the request and its tick. This is the credit error of
//     real labels;
//   - relative, relative_s: it compares with recent behaviour: judgement -
//     relative · (average - middle of the range), limited to the range. The
//     average weighs rewards by exp(-age/relative_s);
//   - compare_s: it compares with the moment so long before instead: better, worse, or
//     can't tell. Of the keys here, only mistake_probability then applies;
//   - drift: it adds its own zero, which starts generous and walks randomly
//     between bounds;
//   - mistake_probability: it confuses good and bad, which mirrors the result in
//     [reward_low, reward_high];
//   - noise_std: Gaussian noise;
//   - levels: it presses the nearest of so many buttons, evenly spaced over the
//     range;
//   - bias: the device adds an offset, which can leave the range.
//
// An example: at t = 0 the robot asks, the operator presses at t = 0.8 s. With
// memory_s 0.25 the states from 0.3 s to 0.8 s have 86 % of the weight; the
// requested state has 4 % of that of the newest. With relative 1, a robot that does
// as well as before gets the middle of the range, a good robot that does worse
// less.
//
// A label is lost when its state or its press falls into an absence, or the
// operator is too tired.
//
// # Sources
//
// Reaction times: Ulrich and Miller (1993), log-normal models. Recency weights:
// the myopic teacher of Lee et al. (2021, B-Pref). Comparison with recent
// behaviour: MacGlashan et al. (2017, COACH). Generosity: Thomaz and Breazeal
// (2006). Drift and fatigue are models without a published measurement.
//
// # Time and determinism
//
// The operator's clock is the time passed to Watch, so it works in simulated and
// in real time. The labels are a function of the configuration and of the calls,
// bit for bit. Reactions, drift, fatigue, absences, and mistakes with noise each
// have a stream of random numbers: the n-th label that a present operator
// considers has the same mistake, noise and reaction with and without the other
// weaknesses. Reactions, memory, comparison, drift and fatigue use exponentials,
// which another kind of CPU can round differently.
//
// After New nothing allocates. Queues are bounded; [Operator.Dropped] counts the
// labels that did not fit.
package scripted
