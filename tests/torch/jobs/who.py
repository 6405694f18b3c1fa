"""Says how many ranks have met."""

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

dist.init_process_group("fabring")
total = torch.ones(1)
dist.all_reduce(total)
if dist.get_rank() == 0:
    print(int(total), "ranks", flush=True)
dist.destroy_process_group()
