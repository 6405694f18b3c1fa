"""Rank 1 ends by an exception that nobody catches, while rank 0 waits for it in a group of two and rank 2 in the world."""

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

dist.init_process_group("fabring")
pair = dist.new_group([0, 1])
if dist.get_rank() == 1:
    raise RuntimeError("no such file: data.pt")
try:
    dist.all_reduce(torch.ones(10), group=pair if dist.get_rank() == 0 else None)
except dist.DistBackendError as error:
    print(f"rank {dist.get_rank()}: {error}", flush=True)
