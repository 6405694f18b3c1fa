#!/usr/bin/env python3
"""Processes that reduce each other's GPU memory where it is: right sums beside a rank that uses memory of the host or the way
through it; a kill -9 or a stop while others read it ends in the named error on every rank, and never in a wrong sum. On a
machine with a GPU as it is; with --fake DIR on a driver made of memory, where that may be mapped piece by piece."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))
from harness import Job, arguments, require, run_cases  # noqa: E402

FAKE = None
PIECES = {"FAKE_CUDA_PIECES": "1"}


def job(options, settings=None):
    return Job(options.program, 3, options.transports[0], {**FAKE, **(settings or {})})


def perf(sizes, rounds, *more, memory=("--memory", "cuda")):
    return ["perf", "allreduce", *memory, "--sizes", sizes, "-i", str(rounds), "-w", "1", "--in-place", *more]


def says(text):
    return lambda event: text in event.get("text", "")


def right(options, commands, settings=lambda number: {}, path=None):
    with job(options) as ranks:
        for number in range(3):
            ranks.start(number, commands(number), {"FAKE_CUDA_SEED": str(number + 1), **settings(number)})
        ranks.ranks[0].wait_event("garbage", 60, says("0 OK"))
        for rank in ranks.ranks:
            rank.wait_exit(60)
            require(rank.exit_code == 0, f"rank {rank.number} ended with {rank.exit_code}")
        for words in [path] if isinstance(path, str) else path or []:
            ranks.ranks[0].wait_log([words], 1)


def mixed_memory(number, sizes="20K,300K", *more):
    return perf(sizes, 3, *more, memory=() if number == 1 else ("--memory", "cuda"))


# What is sent unasked, 32 KiB between ranks of a host, cannot be lent; where every rank began with a GPU it is 4 KiB.
ALL_BEGAN = ["priced for cuda-ipc", "20 KiB: direct_one_shot", "cuda ipc: with 2 ranks"]
ONE_BEGAN_WITHOUT = ["priced for shared-memory", "staged: two copies cost less"]


def descriptors(rank):
    return len(os.listdir(f"/proc/{rank.process.pid}/fd"))


def pieces_mapped(rank):
    with open(f"/proc/{rank.process.pid}/maps") as maps:
        return {line.split()[4] for line in maps if "piece of a fake device" in line}


def few_descriptors(options):
    """Each has mapped pieces of every other, once: operations that follow, in the hundreds, hold no more descriptors than
    the first ones."""
    with job(options, PIECES) as ranks:
        ranks.start_all(perf("200K,300K,3M", 150, "--explain"))
        held = []
        for row in ("  204800  ", "  307200  "):
            ranks.ranks[0].wait_event("garbage", 60, says(row))
            held.append([descriptors(rank) for rank in ranks.ranks])
        mapped = [pieces_mapped(rank) for rank in ranks.ranks]
        require(all(one & other for one in mapped for other in mapped), f"pieces mapped: {mapped}")
        ranks.ranks[0].wait_event("garbage", 60, says("0 OK"))
        for rank in ranks.ranks:
            rank.wait_exit(60)
            require(rank.exit_code == 0, f"rank {rank.number} ended with {rank.exit_code}")
        ranks.ranks[0].wait_log(["cuda ipc: with 2 ranks"], 1)
        require(all(later < sooner + 30 for sooner, later in zip(*held)), f"descriptors held: {held}")


def ended(options, how, settings=None):
    with job(options, {"FABRING_SILENCE_TIMEOUT": "2", **(settings or {})}) as ranks:
        ranks.start_all(perf("9K,6M", 20))
        ranks.ranks[0].wait_event("garbage", 60, says("  9216  "))  # what follows takes long
        ranks.ranks[2].signal(how)
        for rank in ranks.others(2):
            rank.wait_exit(60)
            rank.wait_log(["peer_lost", "rank 2"], 1)
            require(rank.exit_code == 3, f"rank {rank.number} ended with {rank.exit_code}")
        if how == signal.SIGSTOP:  # it wakes up when the others have given it up, perhaps in the middle of a kernel
            ranks.ranks[2].signal(signal.SIGCONT)
            ranks.ranks[2].wait_exit(60)
            require(ranks.ranks[2].exit_code == 3, f"rank 2 ended with {ranks.ranks[2].exit_code}")


def main():
    global FAKE
    fake = sys.argv.index("--fake") if "--fake" in sys.argv else None
    folder = sys.argv[fake + 1] if fake else ""
    if fake:
        del sys.argv[fake:fake + 2]
    path = os.environ.get("LD_LIBRARY_PATH", "")
    FAKE = {"LD_LIBRARY_PATH": folder + ":" + path} if folder else {}
    options = arguments(__doc__, runs=1, transports="shm")
    cases = [
        ("right sums, by cuda ipc", lambda: right(options, lambda _: perf("20K,300K", 3, "--explain"), path="cuda ipc: with 2 ranks")),
        ("20 KiB are lent where all began with a GPU",
         lambda: right(options, lambda _: perf("20K", 3, "--explain"), path=ALL_BEGAN)),
        ("and staged where one began without",
         lambda: right(options, lambda number: mixed_memory(number, "20K", "--explain"), path=ONE_BEGAN_WITHOUT)),
        ("and where FABRING_SEGMENT_BYTES says how long messages are",
         lambda: right(options, lambda _: perf("20K", 3, "--explain"), lambda _: {"FABRING_SEGMENT_BYTES": "256K"},
                       ["priced for cuda-ipc", "staged: two copies cost less"])),
        ("a rank with memory of the host", lambda: right(options, mixed_memory)),
        ("a rank that stages", lambda: right(options, lambda _: perf("20K,300K,3M", 3),
                                             lambda number: {"FABRING_GPU_PATH": "staged" if number == 1 else "auto"})),
    ]
    if fake:
        pieces = lambda number: PIECES if number != 1 else {}
        cases += [
            ("pieces", lambda: right(options, lambda _: perf("20K,300K,5M", 3, "--explain"), lambda _: PIECES,
                                     "cuda ipc: with 2 ranks")),
            ("pieces beside memory with a handle", lambda: right(options, lambda _: perf("300K,5M", 3), pieces)),
            ("pieces beside memory of the host", lambda: right(options, mixed_memory, pieces)),
            ("pieces are opened once", lambda: few_descriptors(options)),
            ("pieces and a kill -9", lambda: ended(options, signal.SIGKILL, PIECES)),
            ("pieces and a stop", lambda: ended(options, signal.SIGSTOP, PIECES)),
        ]
    for number in range(options.runs):
        cases += [(f"a kill -9, {number}", lambda: ended(options, signal.SIGKILL)),
                  (f"a stop, {number}", lambda: ended(options, signal.SIGSTOP))]
    run_cases([case for case in cases if options.only in case[0]])


if __name__ == "__main__":
    main()
