"""Ranks that die, are late, or give up; and processes that go on after that."""

import os
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ranks import create, run

VICTIM = 2


def train_until_it_dies(rank, size):
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 8)),
                                    bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = None
    try:
        for step in range(1000):
            if rank == VICTIM and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == 5:
                began = time.monotonic()
            model(torch.randn(4, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    except dist.DistBackendError as error:
        return str(error), time.monotonic() - began
    return "nothing happened", 0


def test_every_survivor_of_a_dead_rank_names_it():
    answers = run(4, train_until_it_dies, killed=(VICTIM,), timeout_s=300)
    for rank in (0, 1, 3):
        text, seconds = answers[rank]
        assert "peer_lost" in text and f"rank {VICTIM} " in text and "died" in text, text
        assert seconds < 30, "at once, not when the timeout of 300 s is over"


def other_groups_go_on(rank, size):
    pair = dist.new_group([0, 1])
    dist.barrier()
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError, match=f"rank {VICTIM}"):
        dist.barrier()
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=pair)
    assert tensor.item() == 2
    late = dist.new_group([0, 1], use_local_synchronization=True)  # made after it
    dist.all_reduce(tensor, group=late)
    assert tensor.item() == 4


def test_groups_without_the_dead_rank_go_on():
    run(3, other_groups_go_on, killed=(VICTIM,))


def a_late_rank(rank, size):
    group = dist.new_group(timeout=timedelta(milliseconds=300))
    if rank == 0:
        with pytest.raises(dist.DistBackendError) as caught:
            dist.all_reduce(torch.ones(1), group=group)
        text = str(caught.value)
        assert "timeout" in text and "300 ms" in text and "rank 1" in text, text
    dist.barrier()  # the default group has its own limit, and its own life
    if rank == 0:
        work = dist.barrier(async_op=True)
        with pytest.raises(dist.DistBackendError, match="is not done after the 50 ms given to wait"):
            work.wait(timedelta(milliseconds=50))
        dist.distributed_c10d._get_default_store().set("went on", "")
        assert work.wait()
    else:
        dist.distributed_c10d._get_default_store().wait(["went on"])
        dist.barrier()


def test_a_late_rank_is_named_after_the_timeout_of_the_group():
    run(2, a_late_rank)


def refused_on_rank_0(rank, size):
    """By this backend, before the library sees the call: who waits in it hears all the same. Not if it is made after all."""
    store = dist.distributed_c10d._get_default_store()
    collective, factor, message, well = (dist.new_group() for _ in range(4))
    told = []
    if rank == 0:
        for group in (collective, well):
            with pytest.raises(ValueError, match="bitwise_and of Float tensors has no meaning"):
                dist.all_reduce(torch.ones(1), dist.ReduceOp.BAND, group)
        with pytest.raises(ValueError, match="not a real number"):
            dist.all_reduce(torch.ones(1), dist._make_nccl_premul_sum(torch.tensor(1 + 2j)), factor)
        with pytest.raises(ValueError, match="is expanded"):
            dist.recv(torch.ones(1).expand(1 << 18), 1, message)
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=well)
    assert tensor.item() == size
    if rank == 1:
        began = time.monotonic()
        for call in (lambda: dist.all_reduce(torch.ones(1), group=collective),
                     lambda: dist.all_reduce(torch.ones(1), dist._make_nccl_premul_sum(torch.tensor(2.0)), factor),
                     lambda: dist.send(torch.ones(1 << 18), 0, message)):
            with pytest.raises(dist.DistBackendError) as caught:
                call()
            told.append(str(caught.value))
        assert time.monotonic() - began < 30, "not after the timeout of the group"
        store.set("heard", "")
    store.wait(["heard"])
    return told


def test_a_call_that_one_rank_refuses_is_told_to_who_waits_in_it():
    collective, factor, message = run(2, refused_on_rank_0, timeout_s=300)[1]
    for text in (collective, factor, message):
        assert "mismatch" in text and "rank 0 (host " in text and "and has not repeated it: " in text, text
    assert "refused its operation #1" in collective and "bitwise_and of Float tensors has no meaning" in collective, collective
    assert "refused its operation #1" in factor and "the factor is ComplexFloat, not a real number" in factor, factor
    assert "refused a recv from rank 1" in message and "is expanded" in message, message


def aborted(rank, size):
    group = dist.new_group()
    backend = group._get_backend(torch.device("cpu"))
    if rank == 0:
        backend.abort()
    with pytest.raises(dist.DistBackendError, match="rank 0 called abort"):
        dist.barrier(group)
    dist.barrier()
    dist.destroy_process_group(group)


def test_abort_ends_the_group_everywhere_and_no_other():
    run(2, aborted)


def missing_at_the_start(rank, size):
    dist.destroy_process_group()
    if rank == 1:
        return ""
    store = dist.HashStore()
    with pytest.raises(dist.DistBackendError) as caught:
        dist.init_process_group("fabring", store=store, rank=0, world_size=3, timeout=timedelta(milliseconds=300))
    return str(caught.value)


def test_a_rank_that_does_not_come_is_named():
    text = run(2, missing_at_the_start)[0]
    assert "ranks 1 and 2 of 3 did not come within 300 ms" in text, text


def without_rank_0(rank, size):
    dist.destroy_process_group()
    if rank == 0:
        return ""
    os.environ["FABRING_RENDEZVOUS_TIMEOUT"] = "300ms"
    began = time.monotonic()
    with pytest.raises(dist.DistBackendError) as caught:
        dist.init_process_group("fabring", store=dist.HashStore(), rank=1, world_size=2, timeout=timedelta(minutes=5))
    assert time.monotonic() - began < 5, "not when the group's timeout is over"
    return str(caught.value)


def test_the_limit_of_the_start_is_heeded_where_rank_0_does_not_come():
    text = run(2, without_rank_0)[1]
    assert "rank 0 of the group did not come within 300 ms (FABRING_RENDEZVOUS_TIMEOUT)" in text, text


def tries_again(rank, size):
    store = dist.PrefixStore("tries again", dist.distributed_c10d._get_default_store())

    def come(seconds):  # PyTorch numbers calls of init_process_group, of ranks that fail too
        return create(store, rank, size, seconds)

    told = ""
    if rank != 2:  # which comes only when the others have given up
        # Together: the slower one's start may take longer than the first one's try.
        store.set(f"trying {rank}", "")
        store.wait(["trying 0", "trying 1"])
        with pytest.raises(dist.DistBackendError) as caught:
            come(0.3)
        told = str(caught.value)
    store.set(f"gave up {rank}", "")
    # Rank 0's first try would find the second one of a rank that gave up before, and tell that one that rank 2 is missing.
    store.wait(["gave up 0", "gave up 1"] if rank == 2 else ["gave up 0"])
    tensor = torch.ones(1)
    come(60).allreduce([tensor]).wait()
    assert tensor.item() == size
    return told


def test_a_start_is_tried_again_after_a_timeout():
    first, second, _ = run(3, tries_again)
    assert "rank 2 of 3 did not come within 300 ms" in first, first
    assert "rank 2 of 3" in second or "rank 0 of the group did not come" in second, second


def splits_on_one_rank(rank, size):
    sizes = [2] * size if rank == 0 else None
    with pytest.raises(dist.DistBackendError) as caught:
        dist.all_to_all_single(torch.empty(2 * size), torch.ones(2 * size), sizes, sizes)
    assert "mismatch" in str(caught.value) and "give one on all ranks, or on none" in str(caught.value), str(caught.value)


def test_split_sizes_on_one_rank_only_raise_what_to_do():
    run(2, splits_on_one_rank)
