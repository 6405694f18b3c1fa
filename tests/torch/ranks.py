"""Ranks for tests: processes forked from a server that has imported torch and fabring.torch, so that they start in no time.

    results = run(3, work, "argument")       # work(rank, size, "argument") on each; results by rank

A rank's exception ends the run with its traceback. What is passed and returned is pickled.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import tempfile
import time
import traceback
from datetime import timedelta

# The server finds this module, and imports once what DDP and others import when they are first used.
os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")])
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["ranks", "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor.parallel",
                                 "torch.distributed.pipelining", "torch.distributed.checkpoint"])

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import fabring.torch  # noqa: E402, F401


class RankFailed(AssertionError):
    pass


def _main(pipe, store, rank, size, backend, timeout_s, function, arguments):
    torch.set_num_threads(1)
    try:
        dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size,
                                timeout=timedelta(seconds=timeout_s))
        result = function(rank, size, *arguments)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send(("done", pickle.dumps(result)))  # torch would send tensors by descriptors of a process that ends
    except BaseException:
        pipe.send(("failed", traceback.format_exc()))
        raise SystemExit(1)


def run(size: int, function, *arguments, backend: str = "fabring", timeout_s: float = 60, limit_s: float = 120,
        killed: tuple[int, ...] = ()) -> list:
    """`killed`: ranks that end without an answer; their result is None."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(size):
            ours, theirs = _context.Pipe()
            process = _context.Process(target=_main, args=(theirs, os.path.join(folder, "store"), rank, size, backend,
                                                           timeout_s, function, arguments))
            process.start()
            theirs.close()
            ranks.append((process, ours))
        deadline = time.monotonic() + limit_s
        answers: list = [None] * size
        try:
            for rank, (process, pipe) in enumerate(ranks):
                if not pipe.poll(max(deadline - time.monotonic(), 0)):
                    raise RankFailed(f"rank {rank} gave no answer within {limit_s} s")
                try:
                    outcome, answers[rank] = pipe.recv()
                except EOFError:
                    if rank not in killed:
                        raise RankFailed(f"rank {rank} ended without an answer") from None
                    continue
                if outcome == "failed":
                    raise RankFailed(f"rank {rank}:\n{answers[rank]}")
                answers[rank] = pickle.loads(answers[rank])
            for rank, (process, _) in enumerate(ranks):
                process.join(max(deadline - time.monotonic(), 0))
                if process.exitcode is None:
                    raise RankFailed(f"rank {rank} has answered but did not end")
                if rank not in killed and process.exitcode != 0:
                    raise RankFailed(f"rank {rank} ended with {process.exitcode}")
        finally:
            for process, _ in ranks:
                if process.is_alive():
                    process.kill()
                process.join()
        return answers


def create(store, rank, size, seconds=60):
    """A group of all ranks, as init_process_group makes it."""
    return fabring.torch._backend.create(store, rank, size, seconds, "again", [])


def store_of_rank_0(rank):
    """A store in the process of rank 0, which ends with it."""
    meeting = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        meeting.set("port", str(store.port))
        return store
    return dist.TCPStore("127.0.0.1", int(meeting.get("port")), is_master=False, wait_for_workers=False)


def threads_of_this_process():
    return len(os.listdir("/proc/self/task"))
