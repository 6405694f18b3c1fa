"""Ranks 2 and 0 are killed, one after the other; those who are left shrink and go on."""

import os
import signal

import numpy as np

import fabring

comm = world = fabring.init()
doomed = {4: 2, 3: 0}  # by the number of ranks that there are: who ends then
while True:
    try:
        for step in range(20):
            total = comm.allreduce(np.full(300_000, world.rank + 1.0, np.float32))
        if doomed.get(comm.size) == world.rank:
            os.kill(os.getpid(), signal.SIGKILL)
        if comm.size == 2:
            break
        while True:
            comm.allreduce(np.ones(300_000, np.float32))
    except fabring.PeerLostError as error:
        assert error.rank in (2, 0), vars(error)
        comm = comm.shrink()
assert total[0] == total[-1] == 2 + 4, total  # ranks 1 and 3
assert comm.label == "world without rank 2 without rank 0", comm.label
left = comm.shrink("the same")
assert left.size == 2 and left.label == "the same" and left.rank == comm.rank
print(f"rank {world.rank}: went on", flush=True)
