"""SyncBatchNorm: batch normalization over the batches of all ranks together."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from fabring.horovod.differentiable import allreduce
from fabring.horovod.requests import Sum


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d, 2d or 3d; in training, mean and variance are those of all ranks' batches, and gradients flow
    through them. Batches may differ in size. Two small allreduces forward, two backward. Half types are computed with in
    float32, as there, also under autocast; the result has the type of the input."""

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm takes (N, C, ...), not {input.dim()} dimensions")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if not (self.training or self.running_mean is None):
            return super().forward(input)
        with torch.autocast(input.device.type, enabled=False):
            return self._normalize(input.to(torch.promote_types(input.dtype, torch.float32))).to(input.dtype)

    def _normalize(self, input: torch.Tensor) -> torch.Tensor:
        over = [d for d in range(input.dim()) if d != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        # The sums of the ranks are added in float64: there a count is exact, and no FABRING_WIRE_TYPE rounds it.
        own = torch.tensor([input.numel() // input.shape[1]], dtype=torch.float64, device=input.device)
        total = allreduce(torch.cat([input.sum(over).double(), own]), op=Sum)
        count = float(total[-1].detach())
        mean = (total[:-1] / count).to(input.dtype)
        centred = input - mean.view(shape)
        variance = (allreduce(centred.square().sum(over).double(), op=Sum) / count).to(input.dtype)
        if self.training and self.track_running_stats:
            self._remember(mean.detach(), variance.detach(), count)
        result = centred * torch.rsqrt(variance + self.eps).view(shape)
        if not self.affine:
            return result
        return result * self.weight.to(input.dtype).view(shape) + self.bias.to(input.dtype).view(shape)

    def _remember(self, mean: torch.Tensor, variance: torch.Tensor, count: float) -> None:
        self.num_batches_tracked.add_(1)
        share = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_((variance * (count / max(count - 1, 1.0))).to(self.running_var.dtype), share)
