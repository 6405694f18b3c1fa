"""Rank 0 ends while rank 1, which begins to receive only when rank 0 is at its end, still has most of its message to come."""

import sys

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

dist.init_process_group("fabring")
store = dist.distributed_c10d._get_default_store()
count = 5_000_000
if dist.get_rank() == 0:
    dist.isend(torch.ones(count), 1)
    if sys.argv[1] == "destroy":
        dist.destroy_process_group()
    store.set("ends", "")
else:
    received = torch.zeros(count)
    store.wait(["ends"])
    dist.recv(received, 0)
    print(f"received {received.sum().item():.0f}", flush=True)
