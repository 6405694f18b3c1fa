"""Works and futures: what c10d promises of them, who waits for them, and what they keep."""

import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from ranks import run, threads_of_this_process


def futures(rank, size):
    tensor = torch.ones(1000)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda done: done.value()[0] * 2)
    assert doubled.wait()[0].item() == 2 * size
    assert work.is_completed() and work.wait()

    # A callback that communicates, in the thread that runs callbacks.
    def once_more(done):
        value = done.value()[0]
        again = dist.all_reduce(value, async_op=True)
        again.wait()
        return value

    tensor = torch.ones(3)
    result = dist.all_reduce(tensor, async_op=True).get_future().then(once_more)
    assert result.wait()[0].item() == size * size

    # One that waits for another future, which no thread but that of callbacks would complete.
    def and_another(done):
        return dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0]

    tensor = torch.ones(3)
    result = dist.all_reduce(tensor, async_op=True).get_future().then(and_another)
    assert result.wait()[0].item() == size * size

    # Nobody waits, nobody keeps the tensor.
    for _ in range(50):
        dist.all_reduce(torch.ones(20_000), async_op=True)
    works = [dist.all_reduce(torch.full((5,), float(i)), async_op=True) for i in range(20)]
    while not all(work.is_completed() for work in works):  # asking makes progress
        pass
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    assert backend._get_sequence_number_for_group() > 70
    assert works[0].result()[0][0].item() == 0


def test_works_and_futures():
    run(2, futures)


def not_alone(rank, size):
    """Who waits leaves Python to the program's other threads, in each of the ways to wait: what it waits for needs one here."""
    store = dist.distributed_c10d._get_default_store()

    def several():
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as all_of_them:
            for length in (3, 5):
                dist.broadcast(torch.ones(length), src=1, async_op=True)
        return all_of_them.works[0]

    for way, begin in (("one", lambda: dist.all_reduce(torch.ones(3), async_op=True)), ("several", several)):
        if rank == 1:
            store.wait([way], timedelta(seconds=30))
        work = begin()
        if rank == 0:
            threading.Timer(0.2, store.set, (way, "")).start()
        work.synchronize()
        assert work.is_completed()


def test_who_waits_by_synchronize_does_not_stop_python():
    run(2, not_alone, timeout_s=20)


def waited_for_by_two(rank, size):
    """One of those who wait finishes the Work, which takes a moment with so many results; the others go on once its future is
    complete, not before, and not only when its callbacks have run."""
    parts = list(torch.zeros(20_000).split(1))
    options = dist.AllreduceCoalescedOptions()
    options.asyncOp = True
    for call in range(10):
        seen, one_has = [], threading.Event()
        if call % size == rank:
            time.sleep(0.1)  # the other one waits by then
        work = dist.group.WORLD.allreduce_coalesced(parts, options)
        future = work.get_future()

        def wait(work=work, future=future, seen=seen, one_has=one_has):
            work.wait()
            seen.append(future.done() and work.is_completed())
            one_has.set()

        waiters = [threading.Thread(target=wait) for _ in range(2)]
        for waiter in waiters:
            waiter.start()
        called = future.then(lambda _, work=work, one_has=one_has: work.wait() and one_has.wait(30))
        while not work.is_completed():
            time.sleep(0.001)
        assert future.done()
        for waiter in waiters:
            waiter.join(30)
        assert called.wait() and seen == [True, True], seen


def test_the_future_is_complete_when_the_work_is():
    run(2, waited_for_by_two)


def future_of_several(rank, size):
    """It is complete when what was coalesced is, whatever callbacks of a part's future do meanwhile."""
    store = dist.distributed_c10d._get_default_store()
    runs, go_on = threading.Event(), threading.Event()

    def hold(_):
        runs.set()
        return go_on.wait(30)

    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        held = dist.irecv(torch.ones(1), 1 - rank).get_future().then(hold)
        store.set(f"held {rank}", "")
        store.wait([f"held {1 - rank}"])
        dist.isend(torch.ones(1), 1 - rank)
    work, = manager.works
    future = work.get_future()
    waited = future.then(lambda done: work.wait() and len(done.value()))
    assert runs.wait(30)
    work.wait()
    assert future.done() and work.is_completed() and len(future.value()) == 2
    go_on.set()
    assert held.wait() and waited.wait() == 2


def test_the_future_of_coalesced_calls_is_complete_when_they_are():
    run(2, future_of_several)


def kept_works(rank, size):
    works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(3)]
    works.append(dist.irecv(torch.ones(1), 1 - rank))
    dist.send(torch.ones(1), 1 - rank)
    works[0].wait()
    while not works[1].is_completed():
        pass
    works[2].get_future().wait()
    works[3].wait()
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        dist.destroy_process_group()
        store.wait(["heard"], timedelta(seconds=60))
        assert all(work.is_completed() and work.is_success() and work.wait() for work in works)
        assert works[0].result()[0].tolist() == [size] * 3 and works[3].source_rank() == 1
        return
    with pytest.raises(dist.DistBackendError, match="has left the job"):
        dist.recv(torch.ones(1), 0)
    store.set("heard", "")


def test_works_that_are_kept_do_not_keep_the_engine():
    run(2, kept_works, timeout_s=20)


def nobody_waits(rank, size):
    dist.barrier()
    before = threads_of_this_process()
    done = threading.Event()
    for _ in range(20):
        for _ in range(200):
            last = dist.all_reduce(torch.ones(1000), async_op=True)
        last.get_future().then(lambda _: done.set())
        assert done.wait(60)
        done.clear()
    most = threads_of_this_process()
    assert most <= before + 14, "spare threads are for callbacks that wait, not for works that come fast"
    deadline = time.monotonic() + 20
    while threads_of_this_process() > before + 4:  # the one that finishes them, its spare, and the engine's own
        assert time.monotonic() < deadline, f"{threads_of_this_process()} threads are left of {most}; before {before}"


def test_works_nobody_waits_for_take_no_threads():
    run(2, nobody_waits)
