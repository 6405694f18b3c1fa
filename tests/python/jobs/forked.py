"""A fork after init(): the child is refused in words and ends without harm; a child that never used the parent's engine may
do what it likes; the parent goes on."""

import os
import time

import numpy as np

import fabring

try:  # as it needs PyTorch
    import fabring.horovod as hvd
    also_refused = [hvd.init]
except ModuleNotFoundError as missing:
    assert missing.name == "torch", missing
    also_refused = []

world = fabring.init()
x = np.ones(1000)
world.allreduce(x)
work = world.start.allreduce(x)
prepared = world.prepare.allreduce(x)
engine = fabring.engine()
# As programs do for other libraries: this rank and its children are who they were.
os.environ |= {"RANK": "7", "WORLD_SIZE": "8", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "1"}


def group():
    with world.group() as together:
        together.barrier()


child = os.fork()
if child == 0:
    code = 0
    assert fabring.world() is world and fabring.world().rank == int(os.environ["FABRING_RANK"]) and world.size == 2
    began = time.monotonic()
    for call in (lambda: world.allreduce(x), group, prepared.run, work.wait, work.done, lambda: world.abort("why"), world.check,
                 world.duplicate, engine.report, engine.traffic, fabring.engine, lambda: fabring.world().allreduce(x),
                 lambda: fabring.empty(3), fabring.init, *also_refused):
        try:
            call()
            code = 1
        except fabring.InvalidArgumentError as error:
            code = code if "fork" in str(error) else 2
    assert time.monotonic() - began < 1, "none waits for ranks that do not come"
    del work
    raise SystemExit(code)  # the usual way out: atexit, destructors
assert os.waitpid(child, 0)[1] == 0
assert (work.wait() == world.size).all()
alone = os.fork()
if alone == 0:
    with fabring.Engine({"FABRING_RANK": 0, "FABRING_WORLD_SIZE": 1}, environment=False) as engine:
        assert (engine.world.allreduce(x) == 1).all()
    raise SystemExit(0)
assert os.waitpid(alone, 0)[1] == 0
again = os.fork()
if again == 0:  # as the refusal says: a rank of a job of its own, by its own environment
    assert not fabring.is_initialized()
    os.environ |= {"FABRING_RANK": "0", "FABRING_WORLD_SIZE": "1"}
    mine = fabring.init()
    assert mine.size == 1 and (mine.allreduce(x) == 1).all() and fabring.world() is mine
    fabring.shutdown()
    assert fabring.init().size == 1  # again, as the rank that it is now
    raise SystemExit(0)
assert os.waitpid(again, 0)[1] == 0
assert (world.allreduce(x) == world.size).all()
print(f"rank {world.rank}: survived", flush=True)
