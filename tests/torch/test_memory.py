"""Tensors as people have them: views, other values, unaligned, results over inputs, inference mode."""

import os

import numpy as np
import pytest
import torch
import torch.distributed as dist

import fabring.torch
from ranks import run
from values import is_mapped, of_all, of_rank, same


def memory_of_the_group(rank, size):
    """allocate_tensor: it may outlive the group; what is small or too much is ordinary memory."""
    os.environ["FABRING_MAPPED_BYTES"] = str(16 << 20)
    cpu = torch.device("cpu")
    group = fabring.torch._backend.create(dist.PrefixStore("limited", dist.distributed_c10d._get_default_store()), rank, size,
                                          60, "limited", [])
    assert group.supports_tensor_alloc(cpu) and not group.supports_tensor_alloc(torch.device("cuda", 0))
    large = group.allocate_tensor(1 << 20, dtype=torch.float32, device=cpu)
    assert large.shape == (1 << 20,) and large.dtype == torch.float32 and is_mapped(large)
    large.fill_(rank + 1)
    group.allreduce([large]).wait()
    assert large.eq(sum(range(1, size + 1))).all()
    assert not is_mapped(group.allocate_tensor(8, dtype=torch.int64, device=cpu))
    assert group.allocate_tensor(0, dtype=torch.int64, device=cpu).numel() == 0
    more = [group.allocate_tensor(1 << 20, dtype=torch.float32, device=cpu) for _ in range(4)]
    assert is_mapped(more[0]) and not is_mapped(more[3]) and more[3].fill_(3).eq(3).all()
    part = large[:1000]
    del large, more
    again = group.allocate_tensor(1 << 20, dtype=torch.float32, device=cpu)  # what is gone is kept, and there again
    assert is_mapped(again)
    another_size = group.allocate_tensor(3 << 18, dtype=torch.float32, device=cpu)  # for which what is kept goes
    assert is_mapped(another_size)
    group.shutdown()
    del group
    dist.destroy_process_group()
    part += again[:1000].fill_(1)
    assert part.eq(sum(range(1, size + 1)) + 1).all()


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch asks for tensors since")
def test_memory_of_the_group():
    run(2, memory_of_the_group)


def shapes_of_memory(rank, size):
    base = torch.zeros(4, 6)
    view = base.t()[::2]  # neither contiguous nor dense
    view.copy_(of_rank(rank, shape=(3, 4)))
    dist.all_reduce(view)
    same(view, of_all(size, shape=(3, 4)).sum(0))
    assert base[:, 1::2].eq(0).all(), "what lies between is left alone"
    image = of_rank(rank, shape=(2, 3, 4, 5)).to(memory_format=torch.channels_last)
    dist.broadcast(image, src=0)
    same(image, of_rank(0, shape=(2, 3, 4, 5)).to(memory_format=torch.channels_last))
    rows = torch.zeros(size, 2, 3)
    dist.all_gather([row.t() for row in rows], of_rank(rank, shape=(3, 2)))
    same(rows, of_all(size, shape=(3, 2)).transpose(1, 2))
    rows = torch.zeros(size, 4)  # one after the other: nothing is copied
    dist.all_gather(list(rows.unbind()), of_rank(rank, shape=(4,)))
    same(rows, of_all(size, shape=(4,)))
    empty = torch.empty(0, 3)
    dist.all_reduce(empty)
    dist.broadcast(empty, src=0)
    dist.all_gather([torch.empty(0, 3) for _ in range(size)], empty)
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    assert scalar.item() == sum(range(size))
    sparse = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (5,))
    dist.all_reduce(sparse)
    same(sparse.to_dense(), torch.tensor([float(size)] + [2.0] * size + [0.0] * (4 - size)))
    whole = torch.sparse_coo_tensor([[0, rank + 1]], [1 + 1j, 2], (5,))  # a view is called for; its owner gets the sum
    dist.all_reduce(whole)
    same(whole.to_dense(), torch.tensor([size * (1 + 1j)] + [2 + 0j] * size + [0j] * (4 - size)))
    table = torch.sparse_coo_tensor([[0, 2], [1, 1]], [1 + 1j, 2], (4, 4))
    with pytest.raises(ValueError, match="is a view of another"):
        dist.all_reduce(table.t())
    flipped = table.t().clone()
    dist.all_reduce(flipped)
    same(flipped.to_dense(), size * table.to_dense().t())


def test_shapes_of_memory():
    run(3, shapes_of_memory)


def at_odd_byte(values):
    return torch.frombuffer(bytearray(values.numpy().tobytes()), dtype=values.dtype, count=values.numel() - 1, offset=1)


def only_read_on_the_root(rank, size, path):
    """The root of a broadcast sends what it can only read, what a backward pass needs as it is, and several elements in one
    place; what it makes of its tensor meanwhile stays."""
    whole = torch.arange(12.0)
    mapped = np.memmap(path, dtype=np.uint8, mode="r")  # what writes to it ends the process
    read_only = torch.frombuffer(mapped, dtype=torch.float32)
    for of_root, expected in ((read_only, whole), (read_only[::2], whole[::2]),
                              (read_only.reshape(3, 4).t(), whole.reshape(3, 4).t()),
                              (torch.frombuffer(mapped[1:], dtype=torch.float32, count=11), at_odd_byte(whole))):
        tensor = of_root if rank == 0 else torch.zeros(expected.shape)
        dist.broadcast(tensor, src=0)
        same(tensor, expected)
    expanded = torch.full((1,), 3.0).expand(4) if rank == 0 else torch.zeros(4)
    dist.broadcast(expanded, src=0)
    same(expanded, torch.full((4,), 3.0))

    weight = torch.ones(2, 3, requires_grad=True)
    saved = (weight * 2).t()
    loss = saved.square().sum()
    dist.broadcast(saved.detach() if rank == 0 else torch.zeros(3, 2), src=0)
    loss.backward()
    same(weight.grad, torch.full((2, 3), 8.0))

    across = torch.zeros(3, 2).t()
    work = dist.broadcast(across, src=0, async_op=True) if rank == 0 else None
    across += 1
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.set("changed", "")
        work.wait()
        same(across, torch.ones(2, 3))
    else:
        store.wait(["changed"])
        dist.broadcast(across, src=0)


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_the_root_of_a_broadcast_is_only_read(tmp_path):
    path = tmp_path / "values"
    path.write_bytes(torch.arange(12.0).numpy().tobytes())
    run(2, only_read_on_the_root, str(path))


def of_other_values(rank, size):
    """Views that stand for the conjugate, or the negative, of what their memory holds: what counts is what they stand for.
    Of single tensors torch gives backends copies without such views, but in lists of lists, and where they are called
    directly."""
    def given(peer):
        return torch.complex(of_rank(peer), of_rank(peer) + 1)

    def minus(tensor):
        return torch._neg_view(tensor)

    conjugates = torch.stack([given(peer) for peer in range(size)]).conj().resolve_conj()
    z = given(rank)
    outputs = [torch.empty_like(z) for _ in range(size)] if rank == 1 else None
    dist.gather(z.conj(), outputs, dst=1)
    if rank == 1:
        same(torch.stack(outputs), conjugates)
    part = torch.empty_like(z)
    dist.reduce_scatter_tensor(part, torch.cat([z] * size).conj())
    same(part, conjugates.sum(0))
    for inputs in (torch.stack([z] * size).conj().unbind(), [z.conj()] * size):  # adjacent, and not
        part.zero_()
        dist.reduce_scatter(part, list(inputs))
        same(part, conjugates.sum(0))
    rows = torch.zeros(size, 15)
    dist.all_gather(list(minus(rows).unbind()), of_rank(rank).flatten())
    same(rows, -of_all(size).reshape(size, 15))
    row = torch.zeros(15)
    dist.scatter(row, list(minus(of_all(size).reshape(size, 15)).unbind()) if rank == 1 else None, src=1)
    same(row, -of_rank(rank).flatten())
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    x = of_rank(rank)
    backend.allreduce([minus(x)], options).wait()
    same(x, of_rank(0))  # the largest of the negatives
    x = of_rank(rank)
    backend.reduce([minus(x)], dist.ReduceOptions()).wait()  # to rank 0
    same(x, of_all(size).sum(0) if rank == 0 else of_rank(rank))
    received = torch.zeros(3, 5)
    work = backend.recv([minus(received)], (rank - 1) % size, 7)
    backend.send([minus(of_rank(rank))], (rank + 1) % size, 7).wait()
    work.wait()
    same(received, of_rank((rank - 1) % size))
    one = torch.tensor([complex(0, rank + 1)]).conj().imag  # of one element, which is contiguous at any stride
    assert one.is_neg() and one.is_contiguous()
    received = torch.zeros(1)
    work = backend.recv([received], (rank - 1) % size, 8)
    backend.send([one], (rank + 1) % size, 8).wait()
    work.wait()
    assert received.item() == -((rank - 1) % size + 1)


def test_views_of_other_values():
    run(3, of_other_values)


def at_any_byte(rank, size):
    """Tensors in the middle of a file's bytes."""
    def place(values):
        tensor = torch.frombuffer(bytearray(values.numel() * values.element_size() + 1), dtype=values.dtype, offset=1)
        assert tensor.data_ptr() % values.element_size() != 0
        return tensor.view(values.shape).copy_(values)

    for dtype in (torch.float32, torch.bfloat16, torch.complex64):
        mine, everybody = of_rank(rank, dtype=dtype), of_all(size, dtype=dtype)
        tensor = place(mine)
        dist.broadcast(tensor, src=1)
        same(tensor, everybody[1])
        tensor = place(mine)
        dist.all_reduce(tensor)
        same(tensor, everybody.sum(0).to(dtype))
        outputs = [place(torch.zeros_like(mine)) for _ in range(size)]
        dist.all_gather(outputs, place(mine))
        same(torch.stack(outputs), everybody)
        rows = place(torch.zeros_like(everybody))  # one after the other
        dist.all_gather(list(rows.unbind()), place(mine))
        same(rows, everybody)
        received = place(torch.zeros_like(mine))
        sent = dist.isend(place(mine), (rank + 1) % size)
        dist.recv(received, (rank - 1) % size)
        sent.wait()
        same(received, everybody[(rank - 1) % size])


def test_tensors_at_any_byte():
    run(2, at_any_byte)


def results_over_inputs(rank, size):
    """The result lies where an input does: where operations in place have it, and elsewhere, which is for a copy to solve."""
    for block in (rank, 0, size - 1):
        rows = torch.zeros(size, 4)
        rows[block] = rank + 1
        dist.all_gather_into_tensor(rows, rows[block])
        same(rows, torch.arange(1.0, size + 1).unsqueeze(1).expand(size, 4))
        rows = torch.zeros(size, 4)
        rows[block] = rank + 1
        dist.all_gather(list(rows.unbind()), rows[block])
        same(rows, torch.arange(1.0, size + 1).unsqueeze(1).expand(size, 4))
        rows = torch.full((size, 4), float(rank)) + torch.arange(size).unsqueeze(1)
        dist.reduce_scatter_tensor(rows[block], rows)
        same(rows[block], torch.full((4,), sum(range(size)) + size * float(rank)))
        rows = torch.full((size, 4), float(rank)) + torch.arange(size).unsqueeze(1)
        dist.reduce_scatter(rows[block], list(rows.unbind()))
        same(rows[block], torch.full((4,), sum(range(size)) + size * float(rank)))
        rows = torch.full((size, 4), float(rank))
        dist.gather(rows[block], list(rows.unbind()) if rank == 1 else None, dst=1)
        same(rows, torch.arange(float(size)).unsqueeze(1).expand(size, 4) if rank == 1 else torch.full((size, 4), float(rank)))
        rows = torch.arange(float(size)).unsqueeze(1).repeat(1, 4)
        dist.scatter(rows[block], list(rows.unbind()) if rank == 1 else None, src=1)
        same(rows[block], torch.full((4,), float(rank)))
    uneven = torch.full((size * (size + 1) // 2,), float(rank))  # rank r has r + 1 elements
    lists = list(uneven.split([other + 1 for other in range(size)]))
    dist.all_gather(lists, uneven[:rank + 1])
    same(uneven, torch.cat([torch.full((other + 1,), float(other)) for other in range(size)]))
    moved = torch.arange(2.0 * size + 1) + 100 * rank
    expected = torch.cat([torch.arange(2.0 * rank, 2.0 * rank + 2) + 100 * other for other in range(size)])
    dist.all_to_all_single(moved[1:], moved[:-1])
    same(moved[1:], expected)


def test_results_over_inputs():
    run(3, results_over_inputs)


def in_inference_mode(rank, size):
    """Results are copied by a thread that is not in inference mode, whoever waits."""
    def everywhere(value):
        return torch.full((3, 2), float(value))

    for wait in (lambda work: work.wait(), lambda work: work.get_future().wait(),
                 lambda work: work.get_future().then(lambda done: None).wait()):
        for _ in range(5):
            with torch.inference_mode():
                gathered = [torch.zeros(3, 2) for _ in range(size)]
                wait(dist.all_gather(gathered, everywhere(rank), async_op=True))
                received = [torch.zeros(3, 2) for _ in range(size)]
                wait(dist.all_to_all(received, [everywhere(rank) for _ in range(size)], async_op=True))
                across = torch.ones(2, 3).t()
                wait(dist.all_reduce(across, async_op=True))
                over = everywhere(rank).t()
                wait(dist.broadcast(over, 1, async_op=True))
            for other in range(size):
                assert torch.equal(gathered[other], everywhere(other)) and torch.equal(received[other], everywhere(other))
            assert torch.equal(across, everywhere(size)) and torch.equal(over, everywhere(1).t())


def test_results_in_inference_mode():
    run(3, in_inference_mode)
