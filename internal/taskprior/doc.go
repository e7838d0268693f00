// Package taskprior estimates which tasks a person may teach a robot, from recorded
// observations alone.
//
// A task is a vector z, and a reward is φ(s)ᵀz. The task prior is N(0, M) over z with
// M = E[z zᵀ] over random rewards. No reward of a task is used.
//
// # Random rewards
//
// A channel is one element of the observation. Groups of channels, such as the elements of one
// sensor, are equally likely, and so are the channels of a group: otherwise 24 force sensors would be
// drawn 24 times as often as the height. A random reward is one of:
//
//   - a product of one to three factors. A factor is a sigmoid, a bump or a ramp of one
//     random channel. Its centre is a random quantile of the recorded values. Its width is
//     5 % to 30 % of the range from the 5 % to the 95 % quantile. Its direction is random.
//   - with probability [Near], the nearness to a random recorded state in 2 to 12 random
//     channels: 1/(1+m)², with the mean m of squared distances, in units of 0.3 to 1
//     standard deviations.
//
// z of a reward is its centred least-squares solution on the recorded states: the
// regression of the reward on φ - μ, where μ is the mean feature. The model cannot
// learn a reward that φ does not express. Therefore the weight of a reward, in M and in all
// percentiles, is the share of its variance that φ explains.
//
// # Residuals and examples
//
// φ does not express every reward. If a robot stays near few states, the rest looks like
// another task. Therefore the prior has up to 64 residuals e: products of factors as above, made
// uncorrelated with φ on the recorded states. [Estimate] chooses them one at a time. Each
// explains the most of the variance that the features and the earlier residuals leave of 512
// random rewards. M is then the second moment of (g/4, z) of the rewards gᵀe + zᵀ(φ - μ). g is
// divided by 4 because φ expresses the tasks that people teach better than random rewards. The
// examples of the prior are 256 of the random rewards, with a probability proportional to their
// weights and g undivided.
//
// # Leaving out
//
// M is uncertain where real tasks differ from the random ones. [Estimate] measures this
// with rewards that an estimate has not seen. It leaves out each of the four families
// (sigmoid, bump, ramp, nearness) and each of five random parts of the channels, and estimates M from
// the other rewards. Then it computes u²/d = zᵀM⁻¹z/d of rewards that have only them. u is z
// in the basis in which M is the identity. Under the prior, the mean of u²/d is 1.
//
// M is mixed with an isotropic matrix of the same trace, M' = (1-s)M + s(tr M/d)I, and scaled
// by a width. With residuals, each of the two diagonal blocks has its own trace. The rewards left
// out test the block of z; its share and width also apply to g. The rule:
//
//   - The width is the larger of the median of u²/d and half of its 90th percentile. Then
//     the median is at most 1, and the 90th percentile at most 2.
//   - The width gives φᵀz a standard deviation of at least 0.3 over the recorded states.
//     Products of factors are mostly near 0, while a person's labels use their range.
//   - The share s is the smallest of 0, 0.05, 0.1 and 0.3 with a 90th percentile of at most
//     four times the median, so that the median is at least 0.5. Otherwise it is the one
//     with the smallest ratio.
//
// The result depends only on observations, model and options.
package taskprior
