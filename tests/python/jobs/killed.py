"""Rank 1 is killed; the others have an exception that names it, in a blocking call and in a wait."""

import os
import signal
import sys

import numpy as np

import fabring

world = fabring.init()
x = np.ones(200_000, np.float32)
try:
    for step in range(5):
        world.allreduce(x)
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        if sys.argv[1] == "blocking":
            world.allreduce(x)
        else:
            world.start.allreduce(x).wait()
except fabring.PeerLostError as error:
    assert isinstance(error, ConnectionError)
    assert error.rank == 1 and error.host and error.code == "peer_lost" and "rank 1" in str(error), vars(error)
    assert error.collective == "allreduce" and error.sequence >= 5 and error.bytes == x.nbytes, vars(error)
    print(f"rank {world.rank}: named", flush=True)
