"""Rank 1 ends by an exception that nobody catches while the others wait for it, in the world and in a communicator of
some: they hear of it in its words. argv: script (at the end of Python), with (at the end of the engine's block) or horovod;
exit, exit-with: by sys.exit(3) likewise."""

import sys
import time

import numpy as np

import fabring


def wait_for_rank_1(world):
    pair = world.split(0 if world.rank < 2 else -1)
    ready = np.zeros(1)
    if world.rank == 1:
        for other in (0, 2):
            world.recv(ready, other)
        if sys.argv[1].startswith("exit"):
            sys.exit(3)
        raise RuntimeError("no such file: data.npy\nand more")
    world.send(ready, 1)
    began = time.monotonic()
    try:
        (world if pair is None else pair).allreduce(np.ones(10))
    except (fabring.AbortedError, fabring.PeerLostError) as error:
        print(f"rank {world.rank}: {error}; {'at once' if time.monotonic() - began < 2 else 'late'}", flush=True)


if sys.argv[1] in ("with", "exit-with"):
    with fabring.Engine() as engine:
        wait_for_rank_1(engine.world)
elif sys.argv[1] == "horovod":
    import torch

    import fabring.horovod as hvd

    hvd.init()
    try:
        hvd.allreduce(torch.ones(10))
        if hvd.rank() == 1:
            raise RuntimeError("no such file: data.npy\nand more")
        hvd.allreduce(torch.ones(10))
    except hvd.HorovodInternalError as error:
        print(f"rank {hvd.rank()}: {error}", flush=True)
else:
    wait_for_rank_1(fabring.init())
