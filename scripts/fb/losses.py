"""The losses of a forward-backward representation.

The successor measure of pi_z is modelled by its density towards the data,
M(s, a, ds+) = F(s, a, z)^T B(s+) rho(ds+). Touati & Ollivier, "Learning One
Representation to Optimize All Rewards" (2021), give the Bellman residual of
that density and the orthonormality of B; Touati, Rapin & Ollivier, "Does
Zero-Shot Reinforcement Learning Exist?" (2023), the continuous-action variant
with an actor that maximises F(s, a, z)^T z.

A batch serves twice: row i's next state is the one that followed (s_i, a_i),
and every other row's is an independent sample of rho. The sums over all pairs
of rows need no [n, n] matrix, since sum_ij (u_i . w_j)^2 = tr(U^T U W^T W).
"""

import torch


def mean_square_of_pairs(u: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Returns the mean of (u_i . w_j)^2 over i != j; u [..., n, d], w [n, d]."""
    n = w.shape[0]
    everything = ((u.mT @ u) * (w.T @ w)).sum((-2, -1))
    diagonal = (u * w).sum(-1).square().sum(-1)
    return (everything - diagonal) / (n * (n - 1))


def successor_measure_loss(
        forward: torch.Tensor, backward: torch.Tensor, target_forward: torch.Tensor, target_backward: torch.Tensor,
        gamma: float) -> torch.Tensor:
    """Returns the Bellman residual of the density, up to a constant, summed over the ensemble.

    forward is F(s, a, z) [member, n, d] and backward B(s') [n, d];
    target_forward, F(s', pi_z(s'), z), and target_backward, B(s'), are the
    target networks'. The bootstrap is the mean of the members.
    """
    bootstrap = gamma * target_forward.mean(0, keepdim=True).expand_as(forward)
    residual = mean_square_of_pairs(
        torch.cat([forward, -bootstrap], -1), torch.cat([backward, target_backward], -1))
    reached = (forward * backward).sum(-1).mean(-1)
    return (0.5 * residual - reached).sum()


def successor_feature_loss(
        forward: torch.Tensor, target_forward: torch.Tensor, features: torch.Tensor, gamma: float) -> torch.Tensor:
    """Returns the Bellman residual of F itself, || F - phi(s') - gamma F(s') ||^2 / 2, summed over the ensemble.

    features are phi(s') = (E[B B^T])^-1 B(s') [n, d]. In expectation its gradient in
    F is that of successor_measure_loss in the metric of E[B B^T]; that loss takes
    E[B B^T] from one batch, of which n = 256 rows leave an error of some 40 % at d = 50.
    """
    target = features + gamma * target_forward.mean(0)
    return 0.5 * (forward - target).square().sum(-1).mean(-1).sum()


def value_loss(
        forward: torch.Tensor, target_forward: torch.Tensor, z: torch.Tensor, reward: torch.Tensor,
        gamma: float) -> torch.Tensor:
    """Returns the Bellman residual of the value F(s, a, z)^T z for the reward phi(s')^T z, summed over the ensemble.

    It follows from that of the successor measure. For the one direction that the actor
    uses, it has far less variance than the loss over all pairs.
    """
    target = reward + gamma * (target_forward.mean(0) * z).sum(-1)
    return 0.5 * ((forward * z).sum(-1) - target).square().mean(-1).sum()


def orthonormality_loss(backward: torch.Tensor) -> torch.Tensor:
    """|| E[B B^T] - I ||^2 / 2, up to a constant."""
    return 0.5 * mean_square_of_pairs(backward, backward) - backward.square().sum(-1).mean()


def cloning_loss(action: torch.Tensor, data_action: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Returns the mean squared distance of the actor's actions to the data's [n, A], in units of the mean |value| [n].

    Fujimoto & Gu, "A Minimalist Approach to Offline Reinforcement Learning" (2021),
    divide the value by that mean instead, which is the same but for the loss's scale.
    """
    return value.detach().abs().mean() * (action - data_action).square().mean()


def saturation_loss(before_tanh: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Returns the mean square of the inputs of the actor's tanh [n, A], in units of the mean |value| [n].

    If tanh is near its limits its slope is near zero, and an actor that got there
    stays: its actions no longer depend on where it is.
    """
    return value.detach().abs().mean() * before_tanh.square().mean()


def pessimistic(values: torch.Tensor, penalty: float) -> torch.Tensor:
    """Returns the mean over the ensemble, the first axis, minus a penalty on disagreement.

    The disagreement is the mean absolute difference over pairs of members: with
    two of them a penalty of 0.5 is the minimum, and 0 the mean.
    """
    mean, n = values.mean(0), values.shape[0]
    if penalty == 0 or n == 1:
        return mean
    spread = sum((values[i] - values[j]).abs() for i in range(n) for j in range(i))
    return mean - penalty * spread / (n * (n - 1) / 2)
