"""Every collective on every rank of a job, against NumPy's own results from the same numbers."""

import numpy as np

import fabring

world = fabring.init()
r, n = world.rank, world.size
TYPES = [np.float64, np.float32, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
ROWS = 3


def data(rank, rows=ROWS, type=np.float32):
    """Small whole numbers: sums and products are exact in every type."""
    return ((np.arange(rows * 2).reshape(rows, 2) + rank) % 3 + 1).astype(type)


def everyone(rows=ROWS, type=np.float32):
    return [data(rank, rows, type) for rank in range(n)]


def same(got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got, expected)
    assert np.array_equal(got, expected), (got, expected)


def reductions():
    for type in TYPES:
        every = np.stack(everyone(type=type))
        same(world.allreduce(data(r, type=type)), every.sum(0).astype(type))
        same(world.allreduce(data(r, type=type), wire_type="off"), every.sum(0).astype(type))
        same(world.grouped_allreduce([data(r, type=type)], wire_type="off")[0], every.sum(0).astype(type))
        same(world.allreduce(data(r, type=type), op="prod"), every.prod(0).astype(type))
        same(world.allreduce(data(r, type=type), op="max"), every.max(0))
        same(world.allreduce(data(r, type=type), op="min"), every.min(0))
    in_place = data(r)
    assert world.allreduce(in_place, out=in_place) is in_place
    same(in_place, sum(everyone()))
    np.testing.assert_allclose(world.allreduce(data(r), op="avg"), sum(everyone()) / n, rtol=1e-6)
    same(world.allreduce(data(r), factor=r + 1.0), sum((i + 1) * x for i, x in enumerate(everyone())))
    large = np.array([1 if r == 0 else 0, 2 if r == 0 else 0], np.uint64)
    same(world.allreduce(large, factor=2**64 - 1), np.array([2**64 - 1, 2**64 - 2], np.uint64))
    same(world.allreduce(large, factor=np.uint64(2**63)), np.array([2**63, 0], np.uint64))  # wraps
    same(world.allreduce(large.astype(np.int64), factor=-2**63), np.array([-2**63, 0]))
    same(world.allreduce(data(r, type=np.int64), op="bitwise_xor"), np.bitwise_xor.reduce(everyone(type=np.int64)))
    xs = [data(r, rows) for rows in (1, 0, 3, 70000)]
    outs = world.grouped_allreduce(xs)
    for rows, out in zip((1, 0, 3, 70000), outs):
        same(out, sum(everyone(rows)))
    assert world.start.grouped_allreduce(xs, outs=xs, op="max").wait() is not None
    same(xs[2], np.stack(everyone(3)).max(0))
    assert world.grouped_allreduce([]) == []
    fine = np.full(5000, 1 + 2.0**-10, np.float32)  # not a number of bfloat16
    same(world.allreduce(fine, wire_type="bfloat16"), np.full(5000, n if n > 1 else fine[0], np.float32))
    same(world.grouped_allreduce([fine, fine[:3]], wire_type="bf16")[1], np.full(3, n if n > 1 else fine[0], np.float32))
    np.testing.assert_allclose(world.allreduce(fine, wire_type="off"), fine * n, rtol=1e-6)
    rounded = np.full(5000, n if n > 1 else fine[0], np.float32)
    same(world.reduce(fine, wire_type="bfloat16"), rounded) if r == 0 else world.reduce(fine, wire_type="bfloat16")
    same(world.reduce_scatter(np.tile(fine, n), wire_type="bfloat16"), rounded)
    same(world.reduce_scatter(np.tile(fine, n), counts=[5000] * n, wire_type="bf16"), rounded)
    np.testing.assert_allclose(world.reduce_scatter(np.tile(fine, n), wire_type="off"), fine * n, rtol=1e-6)
    flags = np.array([r == 0, True, False])
    same(world.allreduce(flags, op="logical_and"), np.array([n == 1, True, False]))
    for root in range(n):
        got = world.reduce(data(r), root=root)
        same(got, sum(everyone())) if r == root else None
        assert r == root or got is None
    same(world.reduce_scatter(data(r, rows=2 * n)), sum(everyone(rows=2 * n))[2 * r:2 * r + 2])
    counts = [i + 1 for i in range(n)]
    begin = sum(counts[:r])
    same(world.reduce_scatter(data(r, rows=sum(counts)), counts=counts), sum(everyone(sum(counts)))[begin:begin + r + 1])


def movements():
    for root in range(n):
        x = data(r).copy()
        assert world.broadcast(x, root=root) is x
        same(x, data(root))
        got = world.gather(data(r), root=root)
        same(got, np.stack(everyone())) if r == root else None
        got = world.gather(data(r, rows=r), counts=range(n), root=root)
        same(got, np.concatenate([data(i, rows=i) for i in range(n)])) if r == root else None
        full = data(root, rows=2 * n)
        mine = world.scatter(full) if r == root == 0 else world.scatter(
            full if r == root else None, np.empty((2, 2), np.float32), root=root)
        same(mine, full[2 * r:2 * r + 2])
        full = data(root, rows=n * (n - 1) // 2)
        begin = r * (r - 1) // 2
        mine = world.scatter(full if r == root else None, np.empty((r, 2), np.float32), counts=range(n), root=root)
        same(mine, full[begin:begin + r])
    same(world.all_gather(data(r)), np.stack(everyone()))
    same(world.all_gather(data(r, rows=r), counts=range(n)), np.concatenate([data(i, rows=i) for i in range(n)]))
    same(world.alltoall(data(r, rows=2 * n)), np.concatenate([x[2 * r:2 * r + 2] for x in everyone(2 * n)]))
    sent = [(r + j) % 3 for j in range(n)]
    got = [(i + r) % 3 for i in range(n)]
    assert world.exchange_counts(sent) == got
    parts = [data(i, rows=sum((i + j) % 3 for j in range(n))) for i in range(n)]
    begins = [sum((i + j) % 3 for j in range(r)) for i in range(n)]
    expected = np.concatenate([part[begin:begin + rows] for part, begin, rows in zip(parts, begins, got)])
    same(world.alltoall(parts[r], counts=sent, out_counts=got), expected)
    world.barrier()


def messages():
    left, right = (r - 1) % n, (r + 1) % n
    got = np.empty_like(data(0))
    with world.group() as group:
        group.send(data(r), right, tag=7)
        group.recv(got, left, tag=7)
    assert group.results[1] == fabring.Received(left, 7, got.size)
    same(got, data(left))
    texts = np.empty(3, np.uint8), np.empty(5, np.uint8)
    with world.start.group() as begun:  # over only once the sends below are
        begun.recv(texts[0], left, tag=8)
        begun.recv(texts[1], left, tag=9)
    for tag in (9, 8):
        world.send(np.full(tag - 5, r, np.uint8), right, tag=tag)
    assert [work.wait(60) for work in begun.works] == [fabring.Received(left, 8, 3), fabring.Received(left, 9, 4)]
    assert (texts[0] == left).all() and (texts[1][:4] == left).all()
    long = np.empty(100, np.int32)
    work = world.start.recv(long)  # whoever, whatever tag, fewer than there is room for
    world.send(np.full(r + 1, r, np.int32), right, tag=r)
    assert work.wait(60) == fabring.Received(left, left, left + 1)
    assert (long[:left + 1] == left).all()


def asynchronous():
    big = [np.full(100_000, r + i, np.float32) for i in range(4)]
    works = [world.start.allreduce(x, out=x) for x in big]
    for i, work in reversed(list(enumerate(works))):
        assert (work.wait(60) == sum(rank + i for rank in range(n))).all()
        assert work.done()
    for _ in range(20):  # dropped: the arrays live on until the operation is over
        world.start.allreduce(np.ones(50_000, np.float32))
    x, y = np.empty(1000, np.float32), np.empty(1000, np.float32)
    prepared = world.prepare.allreduce(x, out=y)
    for step in range(5):
        x.fill(step + r)
        assert (prepared.run() == sum(step + rank for rank in range(n))).all()


def groups():
    half = world.split(r % 2, key=-r, label="half")
    members = [rank for rank in reversed(range(n)) if rank % 2 == r % 2]
    assert half.size == len(members) and half.rank == members.index(r) and half.label == "half"
    assert half.all_gather(np.array(r)).tolist() == members
    assert (world.split(-1 if r == 0 else 0) is None) == (r == 0)
    assert (world.split(None if r == 0 else 0) is None) == (r == 0)
    assert world.split_by_node().size == n and world.nodes == [world.nodes[0]] * n
    other = world.duplicate()
    work = world.start.allreduce(np.ones(10))
    assert other.allreduce(5) == 5 * n
    assert work.wait()[0] == n


def objects():
    assert world.broadcast_object({"from": r} if r == n - 1 else None, root=n - 1) == {"from": n - 1}
    assert world.all_gather_object("x" * r) == ["x" * i for i in range(n)]


def odd_arrays():
    same(world.allreduce(np.empty((0, 4), np.float32)), np.empty((0, 4), np.float32))
    assert world.allreduce(np.array(2.5)) == 2.5 * n and world.allreduce(np.float64(1)) == n
    try:
        from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2
    except ImportError:
        return
    for type in (bfloat16, float8_e4m3fn, float8_e5m2):
        got = world.allreduce(np.full(5, 0.5, type))
        assert got.dtype == type and (got.astype(np.float32) == 0.5 * n).all(), got


def report():
    assert world.explain.allreduce(np.ones(4)).split(":")[0]
    assert fabring.engine().report() and fabring.engine().setting("FABRING_TIMEOUT")
    traffic = fabring.engine().traffic()
    assert n == 1 or traffic["wire_bytes_sent"] >= traffic["payload_bytes_sent"] > 0
    assert fabring.init() is world


for check in (reductions, movements, messages, asynchronous, groups, objects, odd_arrays, report):
    check()
    print(f"rank {r}: {check.__name__} ok", flush=True)
