"""Ranks 2 and 0 are killed in the middle of allreduces of GPU memory, one after the other; those who are left shrink and go on.
  fabring run -n 4 --grace 60s -- python3 tests/gpu/left.py"""

import os
import signal

import torch

import fabring

comm = world = fabring.init()
doomed = {4: 2, 3: 0}  # by the number of ranks that there are: who ends then
sizes = (2, 20_000, 3_000_000)


def sums(count):
    total = comm.allreduce(torch.full((count,), world.rank + 1.0, device="cuda"))
    torch.cuda.synchronize()
    return total[0].item(), total[-1].item()


while True:
    try:
        for step in range(6):
            ends = [sums(count) for count in sizes]
        if doomed.get(comm.size) == world.rank:
            os.kill(os.getpid(), signal.SIGKILL)
        if comm.size == 2:
            break
        while True:
            sums(sizes[-1])
    except fabring.PeerLostError as error:
        assert error.rank in (2, 0), vars(error)
        comm = comm.shrink()
assert all(end == (2 + 4, 2 + 4) for end in ends), ends  # ranks 1 and 3
print(f"rank {world.rank}: {comm.label}: right sums of {sizes} on the GPU", flush=True)
