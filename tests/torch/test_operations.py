"""What every operation of the backend gives, and says of wrong calls."""

import functools

import pytest
import torch
import torch.distributed as dist

from ranks import RankFailed, run
from values import of_all, of_rank, same

REDUCED = {dist.ReduceOp.SUM: lambda x: x.sum(0), dist.ReduceOp.PRODUCT: lambda x: x.prod(0),
           dist.ReduceOp.MIN: lambda x: x.amin(0), dist.ReduceOp.MAX: lambda x: x.amax(0)}


def reductions(rank, size):
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32,
                  torch.int64):
        for op, reduce in REDUCED.items():
            tensor = of_rank(rank, dtype=dtype)
            dist.all_reduce(tensor, op=op)
            same(tensor, reduce(of_all(size, dtype=dtype).double()).to(dtype))
    tensor = of_rank(rank)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    torch.testing.assert_close(tensor, of_all(size).mean(0))
    tensor = of_rank(rank)
    dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(0.5))
    same(tensor, of_all(size).sum(0) / 2)
    counts = torch.tensor([rank, 7])
    dist.all_reduce(counts, op=dist._make_nccl_premul_sum(3.0))
    same(counts, torch.tensor([3 * sum(range(size)), 21 * size]))
    for factor in (0.5, 1e30, float("nan")):
        with pytest.raises(ValueError, match="is not whole, or too large, and the elements are Long"):
            dist.all_reduce(counts, op=dist._make_nccl_premul_sum(factor))
    flags = torch.tensor([rank == 0, True, False])
    dist.all_reduce(flags, op=dist.ReduceOp.MIN)
    same(flags, torch.tensor([False, True, False]))
    bits = torch.tensor([0b110, 1 << rank])
    dist.all_reduce(bits, op=dist.ReduceOp.BOR)
    same(bits, torch.tensor([0b110, (1 << size) - 1]))
    whole = torch.complex(of_rank(rank), -of_rank(rank))
    dist.all_reduce(whole)
    same(whole, torch.complex(of_all(size).sum(0), -of_all(size).sum(0)))
    half = torch.complex(torch.ones(3), torch.full((3,), float(rank))).to(torch.complex32)
    part = torch.empty(3, dtype=torch.complex32)
    dist.reduce_scatter_tensor(part, torch.cat([half] * size))
    same(part.to(torch.complex64), torch.complex(torch.full((3,), float(size)), torch.full((3,), size * (size - 1) / 2)))
    tensors = [of_rank(rank), of_rank(rank, shape=(7,)), torch.empty(0)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    same(tensors[1], of_all(size, shape=(7,)).sum(0))
    several = (torch.float32, torch.bfloat16, torch.float32, torch.int64, torch.bfloat16)
    tensors = [of_rank(rank, dtype=dtype) for dtype in several]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor, dtype in zip(tensors, several):
        same(tensor, of_all(size, dtype=dtype).sum(0).to(dtype))
    tensor = of_rank(rank)
    dist.reduce(tensor, dst=size - 1)
    if rank == size - 1:
        same(tensor, of_all(size).sum(0))


def test_reductions():
    run(3, reductions)


def reductions_of_small_types(rank, size):
    """Types of which torch itself calculates little, and averages of whole numbers."""
    unsigned = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
    for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2):
        values = of_all(size) % 3  # up to 8 every whole number is exact in each
        for op, reduce in REDUCED.items():
            tensor = values[rank].to(dtype)
            dist.all_reduce(tensor, op=op)
            same(tensor.double(), reduce(values.double()))
    for dtype in unsigned:  # numbers that would be negative in a signed type
        large = 1 << (8 * dtype.itemsize - 1)
        for op, expected in ((dist.ReduceOp.MAX, large), (dist.ReduceOp.MIN, 1)):
            tensor = torch.tensor([large if rank == 1 else 1], dtype=dtype)
            dist.all_reduce(tensor, op=op)
            assert tensor.tolist() == [expected], (dtype, op)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, *unsigned):
        sign = 1 if dtype in unsigned else -1
        tensor = (sign * of_rank(rank, dtype=torch.int64) * (rank + 1)).to(dtype)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        total = sum(sign * of_rank(peer, dtype=torch.int64) * (peer + 1) for peer in range(size))
        same(tensor.to(torch.int64), torch.div(total, size, rounding_mode="trunc"))
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16):
        tensor = torch.tensor([float(rank), 0.0]).to(dtype)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        same(tensor.float(), torch.tensor([(size - 1) / 2, 0.0]))


def test_reductions_of_small_types():
    run(3, reductions_of_small_types)


def factors(rank, size):
    """PREMUL_SUM with a tensor as the factor, another on each rank; one of whole numbers is taken as they are."""
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2):
        tensor = torch.tensor([2.0, 4.0]).to(dtype)
        dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(torch.tensor(0.5 if rank == 0 else 0.25)))
        same(tensor.double(), torch.tensor([1.0, 2.0], dtype=torch.float64) * (1 + (size - 1) / 2))
    whole = torch.complex(of_rank(rank), -of_rank(rank))
    dist.all_reduce(whole, op=dist._make_nccl_premul_sum(torch.tensor(0.5)))
    same(whole, torch.complex(of_all(size).sum(0), -of_all(size).sum(0)) / 2)
    for dtype in (torch.int8, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64):
        for factor in (torch.tensor(rank + 1), torch.tensor([float(rank + 1)])):
            tensor = torch.tensor([1, 7], dtype=dtype)
            dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(factor))
            all_factors = size * (size + 1) // 2
            assert tensor.tolist() == [all_factors, 7 * all_factors], (dtype, factor)
    counts = torch.tensor([1, -1])
    large = 2**53 + 1  # no double has it
    dist.all_reduce(counts, op=dist._make_nccl_premul_sum(torch.tensor(large)))
    assert counts.tolist() == [size * large, -size * large]
    with pytest.raises(ValueError, match="is not whole, or too large, and the elements are Long"):
        dist.all_reduce(counts, op=dist._make_nccl_premul_sum(torch.tensor(0.5)))
    beyond = torch.tensor(2**63 + 1, dtype=torch.uint64)  # no int64 has it
    unsigned = torch.tensor([1, 3], dtype=torch.uint64)
    dist.all_reduce(unsigned, op=dist._make_nccl_premul_sum(beyond))
    assert unsigned.tolist() == [size * (2**63 + 1) % 2**64, size * 3 * (2**63 + 1) % 2**64]
    dist.all_reduce(unsigned.fill_(1), op=dist._make_nccl_premul_sum(float(2**63)))
    assert unsigned.tolist() == [size * 2**63 % 2**64] * 2
    real = torch.ones(2)
    dist.all_reduce(real, op=dist._make_nccl_premul_sum(beyond))
    same(real, torch.full((2,), size * 2.0**63))
    for of, factor in ((counts, beyond), (counts, torch.tensor(2.0**63)), (unsigned, torch.tensor(2.0**64))):
        with pytest.raises(ValueError, match="is not whole, or too large, and the elements are (Long|UInt64)"):
            dist.all_reduce(of, op=dist._make_nccl_premul_sum(factor))
    with pytest.raises(ValueError, match="the factor is ComplexFloat, not a real number"):
        dist.all_reduce(whole, op=dist._make_nccl_premul_sum(torch.tensor(1 + 2j)))
    part = torch.empty(3, 5)
    dist.reduce_scatter_tensor(part, of_all(size).reshape(size * 3, 5), op=dist._make_nccl_premul_sum(torch.tensor(0.5)))
    same(part, of_rank(rank) * size / 2)


def test_factors():
    run(3, factors)


def scattered_reductions(rank, size):
    """reduce_scatter with every operation: of one tensor, of a list, and of a list of different lengths."""
    bitwise = {dist.ReduceOp.BAND: lambda a, b: a & b, dist.ReduceOp.BOR: lambda a, b: a | b,
               dist.ReduceOp.BXOR: lambda a, b: a ^ b}

    def of_blocks(peer, lengths, dtype):  # what the rank `peer` gives to each
        return [((torch.arange(length) + 2 * peer + to) % 5 + 1).to(dtype) for to, length in enumerate(lengths)]

    def expected(op, lengths):
        mine = torch.stack([of_blocks(peer, lengths, torch.int64)[rank] for peer in range(size)])
        if op in bitwise:
            return functools.reduce(bitwise[op], mine.unbind())
        return torch.div(mine.sum(0), size, rounding_mode="trunc") if op == dist.ReduceOp.AVG else REDUCED[op](mine)

    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint64):
        ops = list(REDUCED) if dtype.is_floating_point else [*REDUCED, dist.ReduceOp.AVG, *bitwise]
        for op in ops:
            alike, different = [4] * size, [peer + 1 for peer in range(size)]
            part = torch.empty(4, dtype=dtype)
            dist.reduce_scatter_tensor(part, torch.cat(of_blocks(rank, alike, dtype)), op=op)
            same(part.double(), expected(op, alike).double())
            for lengths in (alike, different):
                part = torch.empty(lengths[rank], dtype=dtype)
                dist.reduce_scatter(part, of_blocks(rank, lengths, dtype), op=op)
                same(part.double(), expected(op, lengths).double())
    part = torch.empty(4)
    dist.reduce_scatter_tensor(part, torch.cat(of_blocks(rank, [4] * size, torch.float32)), op=dist.ReduceOp.AVG)
    torch.testing.assert_close(part, expected(dist.ReduceOp.SUM, [4] * size).float() / size)


def test_scattered_reductions():
    run(3, scattered_reductions)


def moves(rank, size):
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int16, torch.complex64, torch.float8_e4m3fn):
        mine = of_rank(rank, dtype=dtype)
        tensor = mine.clone()
        dist.broadcast(tensor, src=1)
        same(tensor.view(torch.uint8), of_rank(1, dtype=dtype).view(torch.uint8))
        outputs = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(outputs, mine)
        for peer, output in enumerate(outputs):
            same(output.view(torch.uint8), of_rank(peer, dtype=dtype).view(torch.uint8))
    whole = torch.empty(size * 3, 5)
    dist.all_gather_into_tensor(whole, of_rank(rank))
    same(whole, of_all(size).reshape(size * 3, 5))
    part = torch.empty(3, 5)
    dist.reduce_scatter_tensor(part, of_all(size).reshape(size * 3, 5) + rank)
    same(part, of_rank(rank) * size + sum(range(size)))
    dist.reduce_scatter(part, [of_rank(peer) for peer in range(size)])
    same(part, of_rank(rank) * size)
    outputs = [torch.empty(3, 5) for _ in range(size)] if rank == 1 else None
    dist.gather(of_rank(rank), outputs, dst=1)
    if rank == 1:
        same(torch.stack(outputs), of_all(size))
    dist.scatter(part, [of_rank(peer) + 7 for peer in range(size)] if rank == 2 else None, src=2)
    same(part, of_rank(rank) + 7)
    # Lists of different lengths, from each to each.
    inputs = [torch.full((rank + 1, peer + 1), float(rank)) for peer in range(size)]
    outputs = [torch.empty(peer + 1, rank + 1) for peer in range(size)]
    dist.all_to_all(outputs, inputs)
    for peer, output in enumerate(outputs):
        same(output, torch.full((peer + 1, rank + 1), float(peer)))
    output = torch.empty(size * (rank + 1), 2)
    dist.all_to_all_single(output, torch.full((sum(range(1, size + 1)), 2), float(rank)),
                           output_split_sizes=[rank + 1] * size, input_split_sizes=[peer + 1 for peer in range(size)])
    same(output, torch.arange(size).float().repeat_interleave(rank + 1)[:, None].expand(-1, 2))
    # Outputs of different lengths, which not every backend has.
    outputs = [torch.empty(peer + 1) for peer in range(size)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank)))
    same(torch.cat(outputs), torch.cat([torch.full((peer + 1,), float(peer)) for peer in range(size)]))


def test_moves():
    run(3, moves)


def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for length in (0, 1, 100_000):
        received = torch.empty(length)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((length,), float(rank)), right),
                                        dist.P2POp(dist.irecv, received, left)])
        for work in works:
            work.wait()
        same(received, torch.full((length,), float(left)))
    if rank == 0:
        got = set()
        for _ in range(size - 1):
            received = torch.empty(2)
            source = dist.recv(received)
            same(received, torch.full((2,), float(source)))
            got.add(source)
        assert got == set(range(1, size))
        first, second = torch.empty(1), torch.empty(1)
        later = dist.irecv(second, src=1, tag=2)
        dist.recv(first, src=1, tag=1)
        later.wait()
        assert (first.item(), second.item()) == (1, 2), "by tag, not by order"
    else:
        dist.send(torch.full((2,), float(rank)), 0)
        if rank == 1:
            dist.send(torch.full((1,), 2.0), 0, tag=2)
            dist.send(torch.full((1,), 1.0), 0, tag=1)
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank * 1000})
    assert [one["rank"] for one in found] == list(range(size))
    for_me = [None]
    dist.scatter_object_list(for_me, [f"for {peer}" for peer in range(size)] if rank == 0 else None, src=0)
    assert for_me == [f"for {rank}"]


def test_messages():
    run(3, messages)


def coalesced(rank, size):
    """What is called between start and end of a device, as code written for NCCL does; without a device torch calls the forms
    for several tensors itself."""
    cpu = torch.device("cpu")
    for async_ops in (False, True):
        # Kept by torch until the end, and then one call.
        gathered = {dtype: torch.empty(size * 3, 5, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)}
        with dist._coalescing_manager(device=cpu, async_ops=async_ops) as manager:
            for dtype, whole in gathered.items():
                dist.all_gather_into_tensor(whole, of_rank(rank, dtype=dtype))
        manager.wait()
        for dtype, whole in gathered.items():
            same(whole, of_all(size, dtype=dtype).reshape(size * 3, 5))
        # Begun one by one. The first is as large as to be under way for a while.
        large, small = torch.full((1 << 20,), float(rank)), of_rank(rank, dtype=torch.int64)
        received = torch.empty(4, dtype=torch.bfloat16)
        with dist._coalescing_manager(device=cpu, async_ops=async_ops) as manager:
            begun = [dist.broadcast(large, src=1, async_op=True), dist.reduce(small, dst=0, async_op=True),
                     dist.isend(torch.full((4,), float(rank), dtype=torch.bfloat16), (rank + 1) % size),
                     dist.irecv(received, (rank - 1) % size)]
        manager.wait()
        assert all(work.is_completed() for work in begun), "the end is that of all"
        same(large, torch.ones(1 << 20))
        same(received, torch.full((4,), float((rank - 1) % size), dtype=torch.bfloat16))
        if rank == 0:
            same(small, of_all(size, dtype=torch.int64).sum(0))
        if async_ops:
            work, = manager.works
            assert work.is_completed() and work.is_success()
            same(work.get_future().wait()[0], large)
            same(work.result()[-1], received)
    with dist._coalescing_manager(device=cpu, async_ops=True) as manager:
        pass
    manager.wait()
    # One call may fail alone; the others are waited for all the same.
    lengths = [torch.zeros(3), torch.zeros(2)]
    with pytest.raises(dist.DistBackendError, match="recv of 3 elements got 2"):
        with dist._coalescing_manager(device=cpu):
            for length in lengths:
                dist.isend(torch.ones(2), (rank + 1) % size)
                dist.irecv(length, (rank - 1) % size)
    same(lengths[1], torch.ones(2))
    after = torch.ones(2)
    dist.all_reduce(after)
    same(after, torch.full((2,), float(size)))


def test_calls_between_start_and_end_of_coalescing():
    run(2, coalesced)


def expect(error, text, function, *arguments, **named):
    with pytest.raises(error) as caught:
        function(*arguments, **named)
    assert text in str(caught.value), str(caught.value)


def wrong_calls(rank, size):
    expect(ValueError, "is expanded", dist.all_reduce, torch.zeros(1).expand(4))
    expanded, usual = torch.zeros(1).expand(4), torch.zeros(4)
    expect(ValueError, "is expanded", dist.all_gather, [expanded, usual], usual)
    expect(ValueError, "is expanded", dist.all_to_all, [usual, expanded], [usual, usual])
    expect(ValueError, "has no meaning", dist.all_reduce, torch.zeros(2), op=dist.ReduceOp.BAND)
    expect(ValueError, "holds 2 times the input", dist.all_gather_into_tensor, torch.zeros(3), torch.zeros(2))
    expect(ValueError, "needs as many outputs", dist.all_gather, [torch.zeros(1)], torch.zeros(1))
    expect(ValueError, "cannot be split into 2 equal parts", dist.all_to_all_single, torch.zeros(3), torch.zeros(3))
    expect(ValueError, "sum to 5", dist.all_to_all_single, torch.zeros(4), torch.zeros(4), [2, 2], [2, 3])
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor[0].item() == size, "the group is as good as before"


def test_a_wrong_call_says_what_is_wrong_and_harms_nothing():
    run(2, wrong_calls)


def mismatch(rank, size):
    with pytest.raises(dist.DistBackendError) as caught:
        dist.all_reduce(torch.zeros(10 + rank))
    text = str(caught.value)
    assert "mismatch" in text and "allreduce(10 x float32" in text and "allreduce(11 x float32" in text, text
    assert "rank 0" in text and "rank 1" in text, text
    assert "async_save beside training: process_group=dist.new_group()" in text, text
    with pytest.raises(dist.DistBackendError):
        dist.barrier()


def test_ranks_that_call_different_things_are_told_both():
    run(2, mismatch)


def message_mismatch(rank, size):
    with pytest.raises(dist.DistBackendError) as caught:
        if rank == 0:
            dist.send(torch.zeros(2, dtype=torch.int64), 1)
            dist.barrier()
        else:
            dist.recv(torch.zeros(1), 0)
    text = str(caught.value)
    assert "mismatch" in text and "sent send(2 x int64" in text, text
    assert "async_save" not in text, text  # neither with the receive nor with the barrier after the send


def test_a_message_that_does_not_fit_is_not_put_down_to_threads():
    run(2, message_mismatch)


def test_a_failing_rank_fails_the_test():
    with pytest.raises(RankFailed, match="rank 1"):
        run(2, _fails_on_one)


def _fails_on_one(rank, size):
    assert rank == 0, "on purpose"
