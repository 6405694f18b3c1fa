"""Processes that fork, that end without a word, or that get no more threads."""

import multiprocessing
import os
import pathlib
import signal
import sys
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import fabring.torch
from ranks import run

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from few_threads import as_root, few_threads  # noqa: E402


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        for communicate in (dist.barrier, dist.new_group):  # of its parent, by its parent's store: refused, not deadlocked
            with pytest.raises(RuntimeError, match=r"child of fork\(\)"):
                communicate()
        return torch.tensor([index * index])


def loads_data(rank, size):
    dist.barrier()
    seen = 0
    for _ in range(2):  # workers end, and others begin
        for batch in torch.utils.data.DataLoader(Squares(), batch_size=16, num_workers=2,
                                                 multiprocessing_context="fork"):
            total = batch.sum()
            dist.all_reduce(total)
            seen += total.item()
    return seen


def test_data_loaders_that_fork():
    assert run(2, loads_data) == [2 * 2 * sum(i * i for i in range(64))] * 2


def loads_on_one_rank(rank, size):
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    if rank == 1:
        keys = store.num_keys()
        assert in_a_child(dist.new_group) == REFUSED
        assert store.num_keys() == keys, "what a child of fork() says there its parent would have said"
    dist.barrier()
    group = dist.new_group()
    dist.monitored_barrier(group, timeout=timedelta(seconds=20))


def test_a_child_of_fork_says_nothing_by_its_parents_store():
    run(2, loads_on_one_rank)


def child_of_fork(store, rank, size):
    dist.init_process_group("fabring", init_method=f"file://{store}", rank=rank, world_size=size)
    for _ in range(3):
        tensor = torch.ones(1000)
        done = dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0])
        assert done.wait()[0].item() == size
    dist.barrier(dist.new_group())
    dist.destroy_process_group()


def forks(rank, size, folder):
    works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(10)]
    works[-1].wait()
    dist.destroy_process_group()
    child = multiprocessing.get_context("fork").Process(target=child_of_fork, args=(f"{folder}/children", rank, size))
    child.start()
    child.join(60)
    assert child.exitcode == 0, "a child of a process that has no group any more is free to make one"
    dist.init_process_group("fabring", init_method=f"file://{folder}/parents", rank=rank, world_size=size)
    dist.barrier()


@pytest.mark.parametrize("transport", ["auto", "fabric", "tcp"])
def test_a_child_of_fork_may_make_its_own_group(tmp_path, transport):
    run(2, with_transport, transport, forks, str(tmp_path))


def with_transport(rank, size, transport, function, *arguments):
    os.environ["FABRING_TRANSPORT"] = transport
    return function(rank, size, *arguments)


REFUSED, DONE, OTHERWISE = 3, 4, 5


def in_a_child(call):
    """What becomes of a call in a child of fork(); one that hangs is ended by SIGALRM."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        code = OTHERWISE
        try:
            call()
            code = DONE
        except RuntimeError as error:
            code = REFUSED if "child of fork()" in str(error) else OTHERWISE
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


def what_the_parent_made(rank, size):
    over = dist.all_reduce(torch.ones(3), async_op=True)
    over.wait()
    dist.barrier()
    if rank == 0:
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
        under_way = dist.irecv(torch.ones(1), 1)
        refused = {f"{name} of one that is {when}": getattr(work, name)
                   for name in ("wait", "is_completed", "is_success", "synchronize", "get_future")
                   for when, work in (("over", over), ("under way", under_way))}
        refused |= {"abort": backend.abort, "report": fabring.torch.report, "monitored_barrier": dist.monitored_barrier,
                    "irecv": lambda: dist.irecv(torch.ones(1), 1)}
        harmless = {"destroy_process_group": dist.destroy_process_group, "result": over.result, "nothing": lambda: None}
        became = {name: in_a_child(call) for name, call in (refused | harmless).items()}
        dist.send(torch.ones(1), 1)
        under_way.wait()
        return became, {name: REFUSED if name in refused else DONE for name in became}
    dist.recv(torch.ones(1), 0)
    dist.send(torch.ones(1), 0)


def test_a_child_of_fork_is_refused_what_its_parent_made():
    became, wanted = run(2, what_the_parent_made)[0]
    assert became == wanted


def just_ends(pipe, store, rank, size, end):
    dist.init_process_group("fabring", init_method=f"file://{store}", rank=rank, world_size=size)
    if rank == 1:
        dist.barrier()
        if end == "raise":
            raise RuntimeError("no such file: data.pt")
        return
    with pytest.raises(dist.DistBackendError) as caught:
        dist.barrier()  # of which rank 1 may know first that it is over
        dist.all_reduce(torch.ones(10))
    pipe.send(str(caught.value))


@pytest.mark.parametrize("end, words", [("return", "has left the job without calling #"),
                                        ("raise", "its program ended by RuntimeError: no such file: data.pt")])
def test_a_process_of_multiprocessing_that_just_ends_says_goodbye(tmp_path, end, words):
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    ranks = [context.Process(target=just_ends, args=(theirs, tmp_path / "store", rank, 2, end)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    try:
        assert ours.poll(60), "rank 0 gave no answer"
        text = ours.recv()
    finally:
        for rank in ranks:
            rank.join(30)
            rank.kill()
    assert words in text, text


def begin_works(rank, size, more):
    """A work that has a thread to finish it is finished, with a spare or without."""
    dist.all_reduce(torch.ones(3))  # the engine is there
    with few_threads(more):
        work = dist.all_reduce(torch.ones(3), async_op=True)
        if more == 1:  # none is left for who drives what nobody waits for
            work.wait()
        assert work.get_future().wait()[0].tolist() == [1, 1, 1]
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, []), "its own threads block signals, the program's do not"

    def and_another(done):  # needs a spare thread
        return dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0]

    assert dist.all_reduce(torch.ones(3), async_op=True).get_future().then(and_another).wait().tolist() == [1, 1, 1]


@pytest.mark.skipif(not as_root, reason="only root can leave a process some threads")
@pytest.mark.parametrize("more", [1, 2, 3])
def test_a_work_needs_one_thread_at_most(more):
    run(1, begin_works, more)


def begin_a_work_without_threads(rank, size):
    dist.all_reduce(torch.ones(3))  # the engine is there
    dist.monitored_barrier()  # on both ranks
    if rank == 0:
        with few_threads(), pytest.raises(dist.DistBackendError) as refused:
            dist.all_reduce(torch.ones(3), async_op=True)
        assert "unavailable" in str(refused.value) and "ulimit -u" in str(refused.value), refused.value
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(dist.DistBackendError) as heard:
        dist.all_reduce(torch.ones(3))
    assert "rank 0" in str(heard.value) and "ulimit -u" in str(heard.value), heard.value


def test_a_limit_on_threads_is_named_on_all_ranks_and_ends_no_process():
    """Also where the program goes on: it would be one call behind the others."""
    run(2, begin_a_work_without_threads)
