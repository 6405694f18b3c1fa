"""Rank 0 comes to a new group a good second after the others."""

import time

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

dist.init_process_group("fabring")
if dist.get_rank() == 0:
    time.sleep(1.2)
group = dist.new_group()
tensor = torch.ones(1)
dist.all_reduce(tensor, group=group)
print("in time" if tensor.item() == dist.get_world_size() else "wrong", flush=True)
dist.destroy_process_group()
