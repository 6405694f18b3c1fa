"""What is under way when a process ends: others take part in it, so the end waits for it. Here processes really end."""

import os
import sys
import time

import pytest
import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401
from ranks import _context as context


def main(pipe, folder, rank, leave_timeout, function, arguments):
    os.environ["FABRING_LEAVE_TIMEOUT"] = leave_timeout
    torch.set_num_threads(1)
    dist.init_process_group("fabring", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    if rank == 0:
        sys.stderr.flush()
        os.dup2(os.open(f"{folder}/errors", os.O_CREAT | os.O_WRONLY), 2)
    try:
        dist.barrier()  # of which rank 0 may know first that it is over
        pipe.send(function(rank, dist.FileStore(f"{folder}/signals"), *arguments))
    except dist.DistBackendError as error:
        if rank == 0:
            raise
        pipe.send(str(error))


def ended(folder, function, *arguments, leave_timeout="300s", status=0):
    """Runs it on two ranks, whose processes end when it is over. What rank 1 said. Rank 0 ends with this status."""
    pipes, ranks = zip(*(context.Pipe() for _ in range(2))), []
    ours, theirs = pipes
    for rank in range(2):
        ranks.append(context.Process(target=main, args=(theirs[rank], folder, rank, leave_timeout, function, arguments)))
        ranks[rank].start()
        theirs[rank].close()
    try:
        assert ours[1].poll(60), "rank 1 gave no answer"
        said = ours[1].recv()
        for rank, wanted in enumerate((status, 0)):
            ranks[rank].join(60)
            assert ranks[rank].exitcode == wanted, f"rank {rank} ended with {ranks[rank].exitcode}; rank 1: {said}"
        return said
    finally:
        for rank in ranks:
            rank.kill()
            rank.join()


def end_of_rank_0(store, destroy):
    store.set("ends", "")  # before: where a small send is over, destroy_process_group() waits for the other rank's goodbye
    if destroy:
        dist.destroy_process_group()


def a_send(rank, store, count, destroy):
    if rank == 0:
        dist.isend(torch.ones(count), 1)  # and nobody keeps the work
        return end_of_rank_0(store, destroy)
    received = torch.zeros(count)
    store.wait(["ends"])
    dist.recv(received, 0)
    return received.sum().item()


@pytest.mark.parametrize("destroy", [True, False])
@pytest.mark.parametrize("count", [1000, 20_000, 100_000, 5_000_000])
def test_a_send_arrives_though_its_process_ends(tmp_path, count, destroy):
    assert ended(tmp_path, a_send, count, destroy) == count


def collectives(rank, store, count, destroy):
    tensors = [torch.ones(count) for _ in range(5)]
    if rank == 0:
        for tensor in tensors:
            dist.all_reduce(tensor, async_op=True)
        return end_of_rank_0(store, destroy)
    store.wait(["ends"])
    for tensor in tensors:
        dist.all_reduce(tensor)
    return [tensor.eq(2).all().item() for tensor in tensors]


@pytest.mark.parametrize("destroy", [True, False])
@pytest.mark.parametrize("count", [1000, 20_000, 100_000, 5_000_000])
def test_collectives_come_to_their_end_though_a_process_ends(tmp_path, count, destroy):
    assert ended(tmp_path, collectives, count, destroy) == [True] * 5


def nobody_joins(rank, store, what):
    """Rank 1 takes no part in what rank 0 has begun, and hears of its end."""
    other = dist.new_group([0, 1])
    if rank == 1:
        store.wait(["ends"])
        dist.recv(torch.ones(1), 0)
        return "a message that nobody has sent"
    if what == "receive":
        dist.irecv(torch.ones(1), 1)
    else:
        dist.all_reduce(torch.ones(1), group=other, async_op=True)
    store.set("ends", str(time.monotonic()))
    if what == "exception":
        raise ValueError("no such file")


def test_the_end_waits_no_longer_than_the_limit(tmp_path):
    """Nor does the goodbye after it; the others hear why. The default is 10 s."""
    assert "its program has ended while others did not do their part" in ended(tmp_path, nobody_joins, "collective",
                                                                              leave_timeout="5s")
    began = float(dist.FileStore(f"{tmp_path}/signals").get("ends"))
    assert time.monotonic() - began < 9, "of 5 s there should be one, not two"
    assert "(FABRING_LEAVE_TIMEOUT)" in (tmp_path / "errors").read_text()


def test_the_end_waits_for_no_receive(tmp_path):
    assert "has left the job" in ended(tmp_path, nobody_joins, "receive")


def test_the_end_by_an_exception_waits_for_nothing(tmp_path):
    assert "ValueError: no such file" in ended(tmp_path, nobody_joins, "exception", status=1)
