"""Arrays of operations that nobody holds any more are kept until these are over, and no longer. Ctrl-C between the beginning of
an operation and the Work that the caller would hold is a Work that cannot be made."""

import gc
import time
import weakref

import numpy as np

import fabring
from fabring import communicator, work

world = fabring.init()
alone = world.split(world.rank)
LIMIT_S = 60


class Interrupted(work.Work):
    def __init__(self, core, result, family):
        raise KeyboardInterrupt


def interrupted(module, call):
    kept, module.Work = module.Work, Interrupted
    try:
        call()
        raise SystemExit("came back")
    except KeyboardInterrupt:
        pass
    finally:
        module.Work = kept


def group(array):
    with world.group() as together:
        together.recv(array, 1)


def begin(way):
    """An operation that goes on without anybody who holds it; what tells whether its array is there."""
    array = np.zeros(100_000)
    calls = {"started": lambda: world.start.recv(array, 1), "waited for": lambda: world.recv(array, 1),
             "of a group": lambda: group(array)}
    if way == "prepared":
        interrupted(work, world.prepare.broadcast(array, root=1).start)
    elif way == "dropped":
        world.start.recv(array, 1)
    else:
        interrupted(communicator, calls[way])
    return weakref.ref(array)


def prune(way):
    """By any call that begins something."""
    if way == "group":
        with alone.group() as together:
            together.barrier()
    elif way == "prepared":
        barrier.run()
    else:
        alone.barrier()


WAYS = "started", "waited for", "of a group", "prepared", "dropped"
barrier = alone.prepare.barrier()
token = np.zeros(1)
for way in WAYS:
    for pruned_by in ("call", "group", "prepared"):
        if world.rank == 0:
            array = begin(way)
            gc.collect()
            assert array() is not None, f"{way}: freed while it is being received into"
            world.send(token, 1)
            until = time.monotonic() + LIMIT_S
            while array() is not None:
                prune(pruned_by)
                assert time.monotonic() < until, f"{way}: not let go of by {pruned_by}, although it is over"
        else:
            world.recv(token, 0)
            sent = np.full(100_000, 7.0)
            world.broadcast(sent, root=1) if way == "prepared" else world.send(sent, 0)
print(f"rank {world.rank}: let go", flush=True)
