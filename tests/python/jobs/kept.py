"""An engine that nobody keeps lives as long as one of its communicators, and what is begun or prepared on them, and is closed
at exit as any other."""

import gc

import numpy as np

import fabring

world = fabring.Engine().world
again = world.duplicate()
del world
gc.collect()
assert (again.allreduce(np.ones(4)) == again.size).all()
rank, size = again.rank, again.size
for keep in (lambda world: world.prepare.allreduce(np.ones(4)).run, lambda world: world.start.allreduce(np.ones(100_000)).wait,
             lambda world: lambda start=world.start: start.allreduce(np.ones(4)).wait(),
             lambda world: lambda prepare=world.prepare: prepare.allreduce(np.ones(4)).run()):
    kept = keep(fabring.Engine().world)
    gc.collect()
    assert (kept() == size).all(), "nobody but it keeps its engine"
print(f"rank {rank}: kept", flush=True)
