"""The monitored barrier: whom it names, when, and to whom."""

import os
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from ranks import create, run, store_of_rank_0


def barriers(rank, size):
    dist.monitored_barrier()
    if rank == 0:
        with pytest.raises(RuntimeError, match="Ranks 1, 2 failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=200), wait_all_ranks=True)
    dist.barrier()
    if rank != 1:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=200))
    dist.barrier()


def test_monitored_barrier_names_who_is_missing():
    run(3, barriers)


def some_do_not_come(rank, size, wait_all, missing):
    if rank % 2 == 0:
        with pytest.raises(RuntimeError, match=f"{missing} failed to pass monitoredBarrier in 1000 ms"):
            dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=wait_all)
    dist.barrier()


@pytest.mark.parametrize("wait_all, missing", [(False, "Rank 1"), (True, "Ranks 1, 3")])
def test_monitored_barrier_names_all_who_are_missing_to_all_who_came_if_it_is_to(wait_all, missing):
    run(5, some_do_not_come, wait_all, missing)


def let_them_wait(store, count):
    """Returns when so many ranks but rank 0, which leaves no key, have come to a monitored barrier after store.wait(["come"])."""
    keys = store.num_keys() + 1
    store.set("come", "")
    began = time.monotonic()
    while store.num_keys() < keys + count:
        assert time.monotonic() - began < 30, "they do not come"


def hears_at_once(group, error=dist.DistBackendError):
    began = time.monotonic()
    with pytest.raises(error) as caught:
        group.monitored_barrier()
    assert time.monotonic() - began < 20, "not when the timeout of 60 s is over"
    return str(caught.value)


def dies_in_a_monitored_barrier(rank, size, victim, has_the_store):
    store = store_of_rank_0(rank) if has_the_store else dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    group = create(store, rank, size)
    group.barrier().wait()
    if rank == victim:
        let_them_wait(store, size - 1 - (victim != 0))
        os.kill(os.getpid(), signal.SIGKILL)
    store.wait(["come"])
    return [hears_at_once(group) for _ in ("while it waits", "known before")]


@pytest.mark.parametrize("victim, has_the_store", [(1, False), (0, False), (0, True)])
def test_monitored_barrier_names_a_dead_rank_at_once(victim, has_the_store):
    answers = run(3, dies_in_a_monitored_barrier, victim, has_the_store, killed=(victim,))
    for rank in {0, 1, 2} - {victim}:
        for text in answers[rank]:
            assert text.startswith(f"[Rank {rank}]: ") and f"peer_lost: rank {victim} " in text and "died" in text, text
            assert "frame #" not in text and "Exception raised" not in text, text


def ends_beside_a_monitored_barrier(rank, size, how):
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    group = create(store, rank, size)
    if how == "mismatch":
        with pytest.raises(dist.DistBackendError, match="mismatch"):
            group.allreduce([torch.ones(3 + rank)]).wait()
        return [hears_at_once(group)]
    group.barrier().wait()
    if rank == 1:
        let_them_wait(store, size - 2)
        group.abort()
    else:
        store.wait(["come"])
    return [hears_at_once(group) for _ in ("while it waits", "known before")]


@pytest.mark.parametrize("how, why", [("abort", "aborted: rank 1 "), ("mismatch", "mismatch: ")])
def test_monitored_barrier_says_at_once_that_its_group_has_ended(how, why):
    for texts in run(3, ends_beside_a_monitored_barrier, how):
        assert all(f"the group has ended: fabring: {why}" in text for text in texts), texts


def the_store_of_a_monitored_barrier_ends(rank, size):
    """Not with a rank: rank 0 has a server beside the store that it uses."""
    meeting = dist.distributed_c10d._get_default_store()
    server = store_of_rank_0(rank)
    store = dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    group = create(store, rank, size)
    group.barrier().wait()
    if rank == 0:
        let_them_wait(store, 1)
        del server
        return meeting.wait(["heard"])
    store.wait(["come"])
    text = hears_at_once(group, dist.DistNetworkError)
    meeting.set("heard", "")
    group.shutdown()  # the exception may keep it, and rank 0 waits for this rank's goodbye
    assert f"monitoredBarrier: the store at 127.0.0.1:{store.port}, which rank 0's process has unless" in text, text
    assert "frame #" not in text, text


def test_monitored_barrier_names_a_store_that_is_gone():
    run(2, the_store_of_a_monitored_barrier_ends)


def comes_when_it_is_over(rank, size):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=200))
        store.set("gave up", "")
    if rank == 2:
        store.wait(["gave up"])
        with pytest.raises(RuntimeError) as caught:
            dist.monitored_barrier(timeout=timedelta(milliseconds=200))
        store.set("heard", "")
        return str(caught.value)
    store.wait(["heard"])


def test_who_comes_late_to_a_monitored_barrier_hears_who_was_given_up_on():
    text = run(3, comes_when_it_is_over)[2]
    assert "rank 0 did not answer within 5200 ms; the one before was over when this rank came: Rank 1 failed to pass" in text, text


def barrier_of_a_short_group(rank, size):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 2000 ms"):
            dist.monitored_barrier()
        store.set("gave up", "")
    store.wait(["gave up"])
    dist.monitored_barrier()


def test_monitored_barrier_takes_the_timeout_of_its_group():
    run(2, barrier_of_a_short_group, timeout_s=2, limit_s=60)


def barriers_leave_no_keys(rank, size):
    store = dist.distributed_c10d._get_default_store()

    def keys_after(count):
        for _ in range(count):
            dist.monitored_barrier()
        dist.barrier()
        keys = store.num_keys()
        dist.barrier()
        return keys

    few = keys_after(5)
    if rank == 0:  # what it said to those who are missing goes when they have passed a later one
        with pytest.raises(RuntimeError, match="Ranks 1, 2 failed to pass"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=50), wait_all_ranks=True)
    dist.barrier()
    assert keys_after(50) == few


def test_monitored_barriers_leave_no_keys_behind():
    run(3, barriers_leave_no_keys)
