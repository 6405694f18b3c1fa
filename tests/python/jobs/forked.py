"""A fork after init(): the child is refused in words and ends without harm; a child that never used the parent's engine may
do what it likes; the parent goes on."""

import os

import numpy as np

import fabring

world = fabring.init()
x = np.ones(1000)
world.allreduce(x)
work = world.start.allreduce(x)
child = os.fork()
if child == 0:
    code = 1
    try:
        world.allreduce(x)
    except fabring.InvalidArgumentError as error:
        code = 0 if "fork" in str(error) else 2
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
