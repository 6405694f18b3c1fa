"""Rank 1 calls with another shape: an exception on both, with both sides."""

import numpy as np

import fabring

world = fabring.init()
try:
    world.allreduce(np.ones(1000 if world.rank == 0 else 999, np.float32))
except fabring.MismatchError as error:
    assert "1000" in str(error) and "999" in str(error), error
    assert error.code == "mismatch" and error.collective == "allreduce" and error.sequence == 1
    print(f"rank {world.rank}: {error}", flush=True)
try:
    world.barrier()
except fabring.MismatchError:
    print(f"rank {world.rank}: stays so", flush=True)
