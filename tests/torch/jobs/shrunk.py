"""As docs/pytorch.md shows it: when a rank is killed the others leave it out and repeat the step."""

import os
import signal

import torch
import torch.distributed as dist

import fabring.torch

dist.init_process_group("fabring")
started_as = dist.get_rank()
step, lost = 0, []
while step < 10:
    if started_as == 1 and step == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        if lost:
            dist.shrink_group(lost)
            lost, oldest = [], torch.tensor(step)
            dist.all_reduce(oldest, op=dist.ReduceOp.MIN)
            step = int(oldest)
        total = torch.ones(100_000)
        dist.all_reduce(total)
        step += 1
    except dist.DistBackendError:
        lost = fabring.torch.lost_ranks()
        if not lost:
            raise
assert total[0].item() == dist.get_world_size() == 2
print(f"rank {started_as} goes on with {dist.get_world_size()} ranks", flush=True)
dist.destroy_process_group()
