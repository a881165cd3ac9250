"""A net that sums over tokens (Zaheer et al. 2017), as it would be written anywhere: a plugin for stsq."""

import torch
from torch import nn


class DeepSets(nn.Module):
    """`f(X, y) = V sum_t relu(W [x_t; is t in y])` with `width` hidden units."""

    def __init__(self, width, task, bias: bool = True):
        super().__init__()
        self.W = nn.Linear(task.d + 1, width, bias=bias)
        self.V = nn.Linear(width, task.d)

    def forward(self, X, y):
        T = X.shape[1]
        asked = (y.unsqueeze(-1) == torch.arange(T, device=X.device)).any(1).to(X.dtype)  # (batch, T)
        return self.V(torch.relu(self.W(torch.cat([X, asked.unsqueeze(-1)], -1))).sum(1))
