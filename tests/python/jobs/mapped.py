"""Arrays of fabring.empty: like any other for NumPy, operations and views; the memory goes with the last view."""

import gc

import numpy as np

import fabring

world = fabring.init()
r, n = world.rank, world.size
x = fabring.empty((300, 1000))
assert x.shape == (300, 1000) and x.dtype == np.float32 and (x == 0).all() and x.flags.writeable and x.flags.c_contiguous
x[:] = r + 1
assert world.allreduce(x, out=x) is x
assert (x == n * (n + 1) / 2).all()

rows = x[100:200]
rows[:] = r
y = np.empty_like(rows) if r == 0 else fabring.empty(rows.shape)  # in any mixture
world.allreduce(rows, out=y)
assert (y == n * (n - 1) / 2).all() and (x[:100] == n * (n + 1) / 2).all()

z = fabring.empty(5, "int64")
assert z.shape == (5,) and z.dtype == np.int64 and fabring.empty((0, 3)).shape == (0, 3)
del x
gc.collect()
rows[:] = 1  # a view keeps the memory
try:
    fabring.empty(1 << 60, "uint8")
    raise SystemExit("that much was given")
except fabring.OutOfMemoryError as error:
    assert "FABRING_MAPPED_BYTES" in str(error) or "memory" in str(error), error
fabring.shutdown()
rows[:] = 2  # and outlives the engine
print(f"rank {r}: mapped ok")
