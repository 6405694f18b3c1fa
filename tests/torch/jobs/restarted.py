"""A worker of which one is killed in its first life: torchrun starts all again, on the same store."""

import os
import signal

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

dist.init_process_group("fabring")
rank = dist.get_rank()
dist.barrier()
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()  # raises
total = torch.tensor([rank + 1])
dist.all_reduce(total)
if rank == 0:
    print("sum of the second life:", total.item(), flush=True)
dist.destroy_process_group()
