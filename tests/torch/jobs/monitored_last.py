"""Rank 0, whose process has the store, ends without a word when it has passed a monitored barrier."""

import os

import torch.distributed as dist

import fabring.torch  # noqa: F401

dist.init_process_group("fabring")
dist.barrier()
dist.monitored_barrier()
if dist.get_rank() == 0:
    os._exit(0)
print(dist.get_rank(), "fine", flush=True)
os._exit(0)
