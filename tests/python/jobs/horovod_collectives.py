"""The calls of fabring.horovod against what they should give; names in another order on every rank; wrong calls."""

import os
import sys
import threading
import time

import fabring.horovod as hvd
import torch
from fabring.horovod import functions
from horovod_device import choose

torch.set_num_threads(1)


def refused(words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except Exception as error:
        assert all(word in str(error) for word in words), error
        return
    raise SystemExit(f"not refused: {words}")


refused(["'later'", "\"dynamic\""], hvd.init, process_sets="later")
assert not hvd.is_initialized()
hvd.init(process_sets="dynamic")
choose()
r, n = hvd.rank(), hvd.size()
everyone = range(n)


def places():
    assert hvd.is_initialized() and hvd.is_homogeneous()
    assert (hvd.local_rank(), hvd.local_size()) == (r % 2, 2)  # the test pretends that there are n / 2 hosts
    assert (hvd.cross_rank(), hvd.cross_size()) == (r // 2, n // 2)
    assert not hvd.mpi_enabled() and not hvd.nccl_built()


def allreduces():
    x = torch.arange(6.0).reshape(2, 3) + r
    total = sum(torch.arange(6.0).reshape(2, 3) + i for i in everyone)
    assert torch.equal(hvd.allreduce(x, op=hvd.Sum), total) and torch.allclose(hvd.allreduce(x), total / n)
    assert torch.allclose(hvd.allreduce(x, average=False), total)
    assert torch.equal(hvd.allreduce(x, op=hvd.Min), x - r) and torch.equal(hvd.allreduce(x, op=hvd.Max), x - r + n - 1)
    assert torch.equal(hvd.allreduce(torch.full((2,), 2.0), op=hvd.Product), torch.full((2,), 2.0 ** n))
    assert torch.allclose(hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), 2 * total)
    assert torch.allclose(hvd.allreduce(x, prescale_factor=0.5, postscale_factor=4.0), 2 * total / n)
    assert torch.allclose(hvd.allreduce(x, compression=hvd.Compression.fp16), total / n, rtol=1e-3)
    assert torch.equal(hvd.allreduce(torch.tensor([r]), op=hvd.Sum), torch.tensor([n * (n - 1) // 2]))
    assert hvd.allreduce(torch.ones(3, dtype=torch.bfloat16), op=hvd.Sum).tolist() == [n] * 3
    assert hvd.allreduce(torch.tensor(2.0)).item() == 2.0 and hvd.allreduce(torch.empty(0, 3)).shape == (0, 3)
    y = x.clone()
    assert hvd.allreduce_(y, op=hvd.Sum) is y and torch.equal(y, total)
    strided = torch.zeros(3, 2).t()
    strided.copy_(x)
    assert torch.equal(hvd.allreduce_(strided, op=hvd.Sum), total)
    mixed = [x.clone(), torch.tensor([r]), torch.full((2,), r, dtype=torch.float64), torch.ones(400_000)]
    for got in (hvd.grouped_allreduce(mixed, op=hvd.Sum), hvd.grouped_allreduce_([m.clone() for m in mixed], op=hvd.Sum)):
        assert torch.equal(got[0], total) and got[1].item() == got[2][0].item() == n * (n - 1) / 2 and (got[3] == n).all()
    sparse = torch.sparse_coo_tensor([[r, 0]], torch.tensor([1.0, 2.0]), (n,), check_invariants=True)
    expected = torch.ones(n)
    expected[0] += 2 * n
    assert torch.equal(hvd.sparse_allreduce_async(sparse, "s", hvd.Sum)().to_dense(), expected)


def names_in_any_order():
    names = [f"tensor {i}" for i in range(40)]
    shift = 7 * r % len(names)
    handles = {}
    for i, name in enumerate(names[shift:] + names[:shift]):
        size = 300_000 if name.endswith("3") else 5  # some are fused, some are not
        handles[name] = hvd.allreduce_async(torch.full((size,), float(names.index(name) + r)), name=name, op=hvd.Sum)
    for name in reversed(names):
        got = hvd.synchronize(handles[name])
        assert (got == sum(names.index(name) + i for i in everyone)).all(), name
    early = hvd.allgather_async(torch.tensor([r]), name="early") if r else None
    last = hvd.allreduce(torch.ones(1), name="late", op=hvd.Sum)  # does not wait for what rank 0 has not called
    early = early if r else hvd.allgather_async(torch.tensor([r]), name="early")
    while not hvd.poll(early):
        time.sleep(0.001)
    assert last.item() == n and hvd.synchronize(early).tolist() == list(everyone)


def movements():
    got = hvd.allgather(torch.full((r + 1, 2), float(r)))
    assert torch.equal(got, torch.cat([torch.full((i + 1, 2), float(i)) for i in everyone]))
    first, second = hvd.grouped_allgather([torch.tensor([r]), torch.full((r, 1), r)])
    assert first.tolist() == list(everyone) and second.shape == (n * (n - 1) // 2, 1)
    for root in everyone:
        assert hvd.broadcast(torch.tensor([r]), root).item() == root
        x = torch.zeros(2, 2).t() + r
        assert hvd.broadcast_(x, root) is x and (x == root).all()
        x = torch.tensor([float(r)]).expand(3) if r == root else torch.zeros(6)[::2]
        version = x._version
        assert (hvd.broadcast_(x, root) == root).all()
        assert r != root or x._version == version, "the root's is only read"
    sent = torch.cat([torch.full((i + 1,), 10 * r + i) for i in everyone])
    got, splits = hvd.alltoall(sent, splits=[i + 1 for i in everyone])
    assert splits.tolist() == [r + 1] * n and got.tolist() == [10 * i + r for i in everyone for _ in range(r + 1)]
    assert hvd.alltoall(torch.arange(n)).tolist() == [r] * n
    rows = hvd.reducescatter(torch.arange(2.0 * n + 1) + r, op=hvd.Sum)
    full = sum(torch.arange(2.0 * n + 1) + i for i in everyone)
    begin = 2 * r + min(r, 1)
    assert torch.equal(rows, full[begin:begin + 2 + (r < 1)])
    assert torch.allclose(hvd.reducescatter(torch.ones(n)), torch.ones(1))
    assert hvd.allgather_object({"rank": r})[n - 1] == {"rank": n - 1}
    assert hvd.broadcast_object(r, root_rank=n - 1) == n - 1
    hvd.barrier()


def objects_by_name():
    """Two threads of each rank, in opposite orders on even and odd ranks: each begins when the one before has asked."""
    asked = threading.Event()
    wait = functions.synchronize

    def tell_and_wait(handle):
        asked.set()
        return wait(handle)

    functions.synchronize = tell_and_wait
    for call, expected in ((lambda name: hvd.broadcast_object([name, r], 1, name), lambda name: [name, 1]),
                           (lambda name: hvd.allgather_object((name, r), name), lambda name: [(name, i) for i in everyone])):
        got = {}
        threads = [threading.Thread(target=lambda name=name: got.update({name: call(name)}))
                   for name in (["first", "second"] if r % 2 else ["second", "first"])]
        for thread in threads:
            asked.clear()
            thread.start()
            asked.wait()
        for thread in threads:
            thread.join()
        assert got == {name: expected(name) for name in ("first", "second")}, got
    functions.synchronize = wait


def inference_mode():
    """Tensors made in it, to which the thread that carries out the calls writes, and one that has left it: through detach()."""
    with torch.inference_mode():
        x = torch.full((3, 2), float(r))
        assert x.is_inference() and (hvd.broadcast(x, 1) == 1).all()
        strided = torch.full((3, 2), float(r)).t()
        assert (hvd.broadcast_(strided, 1) == 1).all()
        assert (hvd.allreduce(x, op=hvd.Sum, postscale_factor=2.0) == n * (n - 1)).all()
        assert (hvd.allgather(x).sum(1) == 2 * torch.arange(float(n)).repeat_interleave(3)).all()
        assert (hvd.reducescatter(torch.ones(n), op=hvd.Sum, postscale_factor=2.0) == 2 * n).all()
        strided = torch.full((3, 2), float(r)).t()
        handles = [hvd.broadcast_async_(strided, 1), hvd.allreduce_async_(x, op=hvd.Sum, postscale_factor=2.0),
                   hvd.grouped_allreduce_async([torch.ones(2), torch.ones(3)], op=hvd.Sum, postscale_factor=2.0)]
    for handle in handles:
        hvd.synchronize(handle)
    assert (strided == 1).all() and (x == n * (n - 1)).all()


def gradients():
    """Of weight_r * result on each rank, with Horovod's factors: of the sum of all ranks' losses these are those of an allreduce and
    an alltoall, 1/n of those of an allgather and a broadcast, n times those of a reducescatter."""
    weight = float(r + 1)
    weights = [i + 1.0 for i in everyone]
    x = torch.ones(2, requires_grad=True)
    (hvd.allreduce(x, op=hvd.Sum).sum() * weight).backward()
    assert (x.grad == sum(weights)).all()
    x = torch.ones(2, requires_grad=True)
    (hvd.allreduce(x).sum() * weight).backward()
    assert (x.grad == sum(weights) / n).all()
    x = torch.ones(2, r + 1, 1).transpose(0, 1).contiguous().requires_grad_()
    (hvd.allgather(x).sum() * weight).backward()
    assert (x.grad == sum(weights) / n).all() and x.grad.shape == x.shape
    x, y = torch.ones(r + 1, requires_grad=True), torch.ones(2, requires_grad=True)
    first, second = hvd.grouped_allgather([x, y])
    ((first * torch.arange(len(first))).sum() * weight + second.sum() * weight).backward()
    at = r * (r + 1) // 2  # where this rank's rows lie
    assert torch.allclose(x.grad, torch.arange(at, at + r + 1) * (sum(weights) / n)) and (y.grad == sum(weights) / n).all()
    x = torch.ones(2, requires_grad=True)
    (hvd.broadcast(x, 1).sum() * weight).backward()
    assert (x.grad == (sum(weights) / n if r == 1 else 0)).all()
    x = torch.ones(n, requires_grad=True)
    (hvd.alltoall(x).sum() * weight).backward()
    assert x.grad.tolist() == weights
    x = torch.ones(n, requires_grad=True)
    (hvd.reducescatter(x, op=hvd.Sum).sum() * weight).backward()
    assert x.grad.tolist() == [n * one for one in weights]
    x = torch.ones(n, requires_grad=True)
    (hvd.reducescatter(x).sum() * weight).backward()
    assert x.grad.tolist() == weights
    x = torch.ones(n, requires_grad=True)
    (hvd.reducescatter(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0).sum() * weight).backward()
    assert x.grad.tolist() == [2 * n * one for one in weights]


def process_sets():
    evens, odds = hvd.add_process_set(range(0, n, 2)), hvd.add_process_set(hvd.ProcessSet(range(1, n, 2)))
    mine = odds if r % 2 else evens
    assert mine.included() and mine.size() == n // 2 and mine.rank() == r // 2
    assert hvd.allreduce(torch.tensor([1.0]), op=hvd.Sum, process_set=mine).item() == n // 2
    assert hvd.broadcast(torch.tensor([r]), root_rank=r % 2, process_set=mine).item() == r % 2
    refused(["not in"], hvd.allreduce, torch.ones(1), process_set=evens if r % 2 else odds)
    refused(["not in"], hvd.broadcast, torch.ones(1), root_rank=1 - r % 2, process_set=mine)
    refused([f"on rank {r}", f"[0, {2 if r else 1}] on rank {0 if r else 1}"], hvd.add_process_set, [0, 1] if r else [0, 2])
    assert hvd.remove_process_set(odds) and hvd.remove_process_set(evens) and not hvd.remove_process_set(evens)


def wrong_calls():
    refused(["'allreduce.shapes'", "[2]", "[3]"], hvd.allreduce, torch.ones(2 if r else 3), name="shapes")
    refused(["float32", "float64"], hvd.allreduce, torch.ones(2, dtype=torch.float64 if r else torch.float32), name="types")
    refused(["root 0", "root 1"], hvd.broadcast, torch.ones(2), min(r, 1), name="roots")
    refused(["op sum", "op max"], hvd.allreduce, torch.ones(2), name="ops", op=hvd.Max if r else hvd.Sum)
    handle = hvd.allreduce_async(torch.ones(1), name="twice") if r == 0 else None
    if r == 0:
        refused(["'allreduce.twice' is under way"], hvd.allreduce_async, torch.ones(1), name="twice")
    hvd.barrier()  # the others call it no sooner, or it could be over before it is called twice
    hvd.synchronize(handle if r == 0 else hvd.allreduce_async(torch.ones(1), name="twice"))
    refused(["no handle"], hvd.synchronize, 10 ** 9)
    refused(["Adasum"], hvd.allreduce, torch.ones(1), op=hvd.Adasum)
    refused(["splits [5]"], hvd.alltoall, torch.ones(4), splits=[5])
    refused(["list"], hvd.allreduce_async, [1, 2])
    if r == 0:  # what one rank alone is refused is none of its calls
        refused(["meta"], hvd.allreduce, torch.ones(1, device="meta"))
    assert hvd.allreduce(torch.ones(1)).item() == 1  # all of that has harmed nothing


def fork():
    """A child is refused in words, whatever the threads did at that moment, and ends without harm; the parent goes on."""
    handle = hvd.allreduce_async(torch.ones(10))
    child = os.fork()
    if child == 0:
        try:
            hvd.allreduce(torch.ones(1, device="cpu"))
        except hvd.HorovodInternalError:
            sys.exit(0)
        sys.exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert hvd.synchronize(handle).sum() == 10


for check in (places, allreduces, names_in_any_order, movements, objects_by_name, inference_mode, gradients, process_sets,
              wrong_calls, fork):
    check()
    print(f"rank {r}: {check.__name__} ok", flush=True)
hvd.shutdown()
assert not hvd.is_initialized()
