"""Subgroups, which only their members make; when a rank is killed the others go on in one of themselves."""

import os
import signal

import numpy as np

import fabring

world = fabring.init()
n, r = world.size, world.rank


def refused(words, *arguments):
    try:
        world.subgroup(*arguments)
    except fabring.InvalidArgumentError as error:
        assert words in str(error), error
        return
    raise SystemExit(f"not refused: {arguments}")


pairs = [[0, n - 1], [n - 1, 0]]
if r in pairs[0]:  # the others do not know of it
    for number, pair in enumerate(pairs):
        made = world.subgroup(np.array(pair), number, label=f"pair {number}")
        assert (made.rank, made.size, made.label) == (pair.index(r), 2, f"pair {number}")
        assert made.members == pair, made.members
        assert made.all_gather(np.array([r])).tolist() == [[one] for one in pair]
for words, *arguments in (("empty", [], 8), ("ranks[1]=0.5", [r, 0.5], 8), ("no rank", [r, 2**40], 8), ("number=-1", [r], -1),
                          ("number=2147483648", [r], 2**31), ("number", [r], "8"), (f"{n}", [r, n], 8)):
    refused(words, *arguments)
assert world.allreduce(1) == n

left = list(range(n))
token = np.zeros(1)
if r == 1:
    for _ in range(n - 1):  # when nobody waits in the call before any more
        world.recv(token, fabring.ANY_SOURCE)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    world.send(token, 1)
    world.allreduce(np.ones(200_000, np.float32))
    raise SystemExit("rank 1 is dead, and an allreduce with it ended")
except fabring.PeerLostError as error:
    left.remove(error.rank)
group = world.subgroup(left, 9)
assert (group.allreduce(np.ones(200_000, np.float32)) == n - 1).all()
assert (group.rank, group.size, group.label != world.label) == (left.index(r), n - 1, True)
print(f"rank {r}: goes on without rank 1", flush=True)
