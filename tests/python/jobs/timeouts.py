"""Rank 0 alone makes each call, with a limit of its own, on a communicator of its own: it ends long before FABRING_TIMEOUT."""

import numpy as np

import fabring

world = fabring.init()
r, n = world.rank, world.size
x = np.ones(2 * n, np.float32)
LONG = np.ones(1_000_000)  # a send of it waits for its receive
CALLS = {
    "allreduce": lambda c: c.allreduce(x, timeout=0.1),
    "grouped_allreduce": lambda c: c.grouped_allreduce([x], timeout=0.1),
    "reduce": lambda c: c.reduce(x, timeout=0.1),
    "broadcast": lambda c: c.broadcast(x, root=1, timeout=0.1),
    "all_gather": lambda c: c.all_gather(x, timeout=0.1),
    "reduce_scatter": lambda c: c.reduce_scatter(x, timeout=np.float32(0.1)),
    "gather": lambda c: c.gather(x, timeout=0.1),
    "scatter": lambda c: c.scatter(out=x, root=1, timeout=0.1),
    "alltoall": lambda c: c.alltoall(x, timeout=0.1),
    "barrier": lambda c: c.barrier(timeout=0.1),
    "send": lambda c: c.send(LONG, 1, timeout=0.1),
    "recv": lambda c: c.recv(x, 1, timeout=0.1),
    "started": lambda c: c.start.allreduce(x, timeout=0.1).wait(),
    "prepared": lambda c: c.prepare.allreduce(x, out=x, timeout=0.1).run(),
    "infinite": lambda c: c.start.allreduce(x, timeout=float("inf")).wait(0),
}
comms = {name: world.duplicate(name) for name in CALLS}
for name, call in CALLS.items() if r == 0 else ():
    try:
        call(comms[name])
        raise SystemExit(f"{name} ended well")
    except fabring.TimeoutError as error:
        assert ("the timeout of this operation" in str(error)) == (name != "infinite"), (name, error)
        assert name != "infinite" or comms[name].check() is None
world.barrier(timeout=3600)
print(f"rank {r}: in time", flush=True)
