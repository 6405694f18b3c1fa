"""SyncBatchNorm: batch normalization over the batches of all ranks together."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from fabring.horovod.differentiable import allreduce
from fabring.horovod.requests import Sum


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d, 2d or 3d; in training, mean and variance are those of all ranks' batches, and gradients flow
    through them. Batches may differ in size. Two small allreduces forward, two backward."""

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm takes (N, C, ...), not {input.dim()} dimensions")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if not (self.training or self.running_mean is None):
            return super().forward(input)
        over = [d for d in range(input.dim()) if d != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        own = float(input.numel() // input.shape[1])
        sums = torch.cat([input.sum(over), input.new_tensor([own])])
        total = allreduce(sums, op=Sum)
        count = float(total[-1].detach())
        mean = total[:-1] / count
        centred = input - mean.view(shape)
        variance = allreduce(centred.square().sum(over), op=Sum) / count
        if self.training and self.track_running_stats:
            self._remember(mean.detach(), variance.detach(), count)
        result = centred * torch.rsqrt(variance + self.eps).view(shape)
        return result * self.weight.view(shape) + self.bias.view(shape) if self.affine else result

    def _remember(self, mean: torch.Tensor, variance: torch.Tensor, count: float) -> None:
        self.num_batches_tracked.add_(1)
        share = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance * (count / max(count - 1, 1.0)), share)
