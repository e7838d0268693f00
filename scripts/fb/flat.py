"""A module's parameters as one vector.

An optimiser's step, or the following of a target network, is then one pass over
memory instead of a few calls for each of dozens of small tensors, which on a CPU
take a tenth of an update of small networks.
"""

import torch
from torch import nn


class Flat:
    """The parameters of a module, which become views of vector."""

    def __init__(self, module) -> None:
        self.parameters = list(module.parameters())
        with torch.no_grad():
            self.vector = nn.Parameter(torch.cat([p.reshape(-1) for p in self.parameters]))
            at = 0
            for p in self.parameters:
                p.data = self.vector.data[at : at + p.numel()].view_as(p)
                at += p.numel()


def backward(loss, *flats) -> None:
    """Set each vector's grad to that of the loss; all else is left alone."""
    parameters = [p for f in flats for p in f.parameters]
    gradients = iter(torch.autograd.grad(loss, parameters))
    for f in flats:
        f.vector.grad = torch.cat([next(gradients).reshape(-1) for _ in f.parameters])
