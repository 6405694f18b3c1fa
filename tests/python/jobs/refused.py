"""Rank 1 gets calls wrong that only the package sees, catches what is raised and makes no other: the others, who wait in
them, hear whose they are and why. What it asks to have explained nobody waits for, and a call that it repeats is one."""

import numpy as np

import fabring

try:
    import torch
except ImportError:
    torch = None

world = fabring.init()
r, n = world.rank, world.size
ODD = 1
x = np.ones(6, np.float32)


def group(begin, root):
    with begin() as group:
        group.send(x, 0, tag=4)
        group.barrier()
        group.broadcast(x, root=root)


def object_of(comm, wrong):
    return comm.all_gather_object((lambda: None) if wrong else r)


def moved(comm):
    tensor = torch.ones(6)
    prepared = comm.prepare.allreduce(tensor, out=tensor)
    tensor.data = torch.ones(6)
    prepared.run()


# What it gets wrong, how the others call the same (or wait for its message), and words of the reason.
CASES = [
    ("counts", lambda c: c.all_gather(x, counts=[6, 5, 6]), lambda c: c.start.all_gather(x, counts=[6] * n), "counts says 5"),
    ("root", lambda c: c.start.broadcast(x, root=3), lambda c: c.start.broadcast(x.copy(), root=ODD), "root=3"),
    ("timeout", lambda c: c.barrier(timeout=0), lambda c: c.start.barrier(), "barrier: timeout=0 is no"),
    ("op", lambda c: c.prepare.allreduce(x, op="suum"), lambda c: c.start.allreduce(x), "'suum'"),
    ("array", lambda c: c.allreduce([1, 2]), lambda c: c.start.allreduce(x), "asarray"),
    ("tag", lambda c: c.send(x, 0, tag=-3), lambda c: c.start.recv(x.copy(), ODD, tag=3), "tag=-3"),
    ("rank", lambda c: c.recv(x, 10**30), lambda c: c.start.send(np.ones(10**6), ODD), f"source={10**30}"),
    ("grouped", lambda c: group(c.group, 9), lambda c: c.start.barrier(), "broadcast: root=9"),
    ("group that is started", lambda c: group(c.start.group, 9), lambda c: c.start.barrier(), "broadcast: root=9"),
    ("message of a group", lambda c: group(c.group, 9), lambda c: c.start.recv(x.copy(), ODD), "broadcast: root=9"),
    ("colour", lambda c: c.split(1.5), lambda c: c.start.barrier(), "split: colour=1.5 is no whole number"),
    ("large colour", lambda c: c.split(2**40), lambda c: c.start.barrier(), f"split: colour={2**40} does not fit"),
    ("key", lambda c: c.split(0, "1"), lambda c: c.start.barrier(), "split: key='1' is no whole number"),
    ("label of nodes", lambda c: c.split_by_node(5), lambda c: c.start.barrier(), "split_by_node: label=5 is no str"),
    ("label", lambda c: c.duplicate(None), lambda c: c.start.barrier(), "duplicate: label=None is no str"),
    ("plans", lambda c: c.with_plans(5), lambda c: c.start.barrier(), "with_plans: plans is a int"),
    ("ranks", lambda c: c.subgroup([0, 1.0, 2], 1), lambda c: c.subgroup([0, 1, 2], 1).start.barrier(), "subgroup: ranks[1]=1.0 is no"),
    ("no ranks", lambda c: c.subgroup(3, 2), lambda c: c.subgroup([0, 1, 2], 2).start.barrier(), "subgroup: ranks=3 is no list"),
    ("label of ranks", lambda c: c.subgroup([0, 1, 2], 3, b"a"), lambda c: c.subgroup([0, 1, 2], 3).start.barrier(),
     "subgroup: label=b'a' is no str"),
    ("object", lambda c: object_of(c, True), lambda c: c.start.all_gather(np.asarray(8)), "all_gather_object: "),
]
if torch:
    CASES.append(("prepared", moved, lambda c: c.start.allreduce(x), "start of what was prepared: x does not have the memory"))
comms = [world.duplicate(name) for name, *_ in CASES]
explained, repeated = world.duplicate("explained"), world.duplicate("repeated")
if r == ODD:
    for comm, (name, wrong, _, words) in zip(comms, CASES):
        try:
            wrong(comm)
            raise SystemExit(f"not refused: {name}")
        except Exception as error:
            assert words.split(": ")[-1] in str(error), (name, error)
    for comm, call in ((explained, explained.explain), (repeated, repeated)):
        try:
            call.reduce(x, root=-1)
            raise SystemExit("not refused")
        except fabring.InvalidArgumentError:
            pass
    repeated.reduce(x)
    world.barrier()
    explained.barrier()
else:
    # Rank 2 waits with the others in what concerns rank 0 alone.
    works = [call(comm) if r == 0 or name not in ("tag", "rank", "message of a group") else comm.start.barrier()
             for comm, (name, _, call, _) in zip(comms, CASES)]
    fine = [explained.start.barrier(), repeated.start.reduce(x)]
    for work, (name, _, _, words) in zip(works, CASES):
        try:
            work.wait()
            raise SystemExit(f"{name}: it ended well")
        except fabring.MismatchError as error:
            assert error.rank == ODD and f"rank {ODD} " in str(error) and "refused" in str(error), (name, error)
            assert words in str(error), (name, error)
    world.barrier()
    for work in fine:
        work.wait()
print(f"rank {r}: told", flush=True)
