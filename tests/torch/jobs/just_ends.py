"""A program that forgets destroy_process_group, with an operation under way on every rank."""

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

dist.init_process_group("fabring")
dist.all_reduce(torch.ones(1))
dist.all_reduce(torch.ones(100_000), async_op=True)
if dist.get_rank() == 0:
    print(dist.get_world_size(), "ranks", flush=True)
