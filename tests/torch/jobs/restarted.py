"""A worker of which one is killed in its first life: torchrun starts all again, on the same store."""

import os
import signal

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if first_life:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun would end us before we can say what was lost
dist.init_process_group("fabring")
rank = dist.get_rank()
dist.barrier()
if first_life:
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()  # raises
total = torch.tensor([rank + 1])
dist.all_reduce(total)
if rank == 0:
    print("sum of the second life:", total.item(), flush=True)
dist.destroy_process_group()
