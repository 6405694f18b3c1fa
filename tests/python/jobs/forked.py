"""A fork after init(): the child is refused in words and ends without harm; a child that never used the parent's engine may
do what it likes; the parent goes on."""

import os

import numpy as np

import fabring

world = fabring.init()
x = np.ones(1000)
world.allreduce(x)
work = world.start.allreduce(x)
prepared = world.prepare.allreduce(x)


def group():
    with world.group() as together:
        together.barrier()


child = os.fork()
if child == 0:
    code = 0
    for call in (lambda: world.allreduce(x), group, prepared.run, work.wait, work.done, lambda: world.abort("why"), world.check,
                 world.duplicate, fabring.engine().report, fabring.engine().traffic, lambda: fabring.empty(3)):
        try:
            call()
            code = 1
        except fabring.InvalidArgumentError as error:
            code = code if "fork" in str(error) else 2
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
assert (world.allreduce(x) == world.size).all()
print(f"rank {world.rank}: survived", flush=True)
