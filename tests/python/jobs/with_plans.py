"""A communicator runs the plans that the program gives it, and refuses wrong ones on every rank."""

import json

import numpy

import fabring

world = fabring.init()
n, r = world.size, world.rank


def plan(rank):
    """Of a broadcast in which rank 0 sends to each other."""
    if rank != 0:
        steps = [{"kind": "recv", "peer": 0, "message": 0, "to": ["output", 0], "after": []}]
    else:
        steps = [{"kind": "send", "peer": peer, "message": 0, "from": ["input", 0], "after": []} for peer in range(1, n)]
        steps.append({"kind": "copy", "to": ["output", 0], "from": ["input", 0], "after": list(range(n - 1))})
    return {"format": "fabring-plan", "version": 1, "collective": "broadcast", "algorithm": "from Python", "rank": rank,
            "size": n, "root": 0, "largest_message": 1 << 40, "ranges": [[0, 0, 1, 1]], "scratch": [], "steps": steps}


plans = json.dumps([plan(rank) for rank in range(n)])
for text in (plans, plans.encode()):
    made = world.with_plans(text, label="star")
    assert (made.rank, made.size, made.label) == (r, n, "star")
    word = numpy.array([5 if r == 0 else 0])
    assert made.broadcast(word)[0] == 5
    assert made.explain.broadcast(word).startswith("from Python"), made.explain.broadcast(word)
    assert made.allreduce(1) == n
for wrong in ("", "[]", json.dumps([plan(0)])):
    try:
        world.with_plans(wrong)
    except fabring.InvalidArgumentError as error:
        assert "plans" in str(error), error
    else:
        raise SystemExit(f"not refused: {wrong}")
assert world.allreduce(1) == n
