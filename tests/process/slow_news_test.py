"""While rank 0, by which all others hear of each other, stands still, those who live do not lose each other over a group that
one of them aborts: its memory comes back by the connections of the data. When rank 0 goes on all hear why the group ended, and
every other group is as it was."""

import signal
import time

import harness
from harness import Job, arguments, require, require_error, run_cases

LARGE = 16 << 20
STOP = 5.0  # seconds; twice as long as a rank waits for its memory


def expect_sums(ranks, on):
    line = f"loop on={on} steps=5 sizes=4,65536,1048576"
    starts = [len(rank.events) for rank in ranks]
    for rank in ranks:
        rank.say(line)
    for rank, start in zip(ranks, starts):
        served = rank.wait_event("served", 20, lambda e: e["command"] == line, start)
        require(served["exit"] == 0, f"rank {rank.number}: {on} ended with {served['exit']}")


def run(options, transport, mapped):
    """Rank 2 has not called what the others are in: it keeps what they granted, and they keep what they lent each other."""
    # With each other rank, so that what one reads in turn waits for who is missing.
    with Job(options.program, 4, transport, {"FABRING_ALGORITHM": "direct"}) as job:
        job.start_all(lambda rank: [f"split name=A colour={0 if rank else -1} key={rank}",
                                    f"split name=B colour={0 if rank else -1} key={rank}",
                                    *([f"background on=A steps=1 sizes={LARGE} mapped={mapped}"] if rank in (1, 3) else []),
                                    "serve"])
        others = job.others(0)
        job.wait_event("serving", 30)
        for rank in (job.ranks[1], job.ranks[3]):
            rank.wait_event("begun", 30)
        expect_sums(others, "B")  # by then what was called on A is as far as it comes
        job.ranks[0].signal(signal.SIGSTOP)
        stopped = time.monotonic()
        require(job.ranks[3].ask("abort on=A", 5) == 0, "abort failed")
        job.ranks[3].wait_event("done", 10, lambda e: e["on"] == "A")
        took = time.monotonic() - stopped
        require(took < 2 * harness.slowness, f"A's operations took {took:.3f} s to end where it was aborted")
        with job.ranks[3].changed:  # not a wait for anything: the length of the stop is what is tested
            job.ranks[3].changed.wait_for(lambda: job.ranks[3].exit_code is not None, stopped + STOP - time.monotonic())
        expect_sums(others, "B")
        job.ranks[0].signal(signal.SIGCONT)
        for rank in others:
            if rank.number != 2:
                rank.wait_event("done", 10, lambda e: e["on"] == "A")
            else:
                require(rank.ask(f"loop on=A sizes={LARGE}", 10) == 3, "rank 2 has not heard that A was aborted")
            require_error(rank, "aborted", words=["the-test-said-so"])
        expect_sums(others, "B")
        expect_sums(job.ranks, "world")
        for rank in others:
            require(len(rank.errors()) == 1, f"rank {rank.number} has other errors")
        for rank in job.ranks:
            rank.say("end")
        for rank in job.ranks:
            require(rank.wait_exit(10) == 0, f"rank {rank.number} ended with {rank.exit_code}")
        return f"over after {took:.3f} s where it was aborted"


def main():
    options = arguments(__doc__, runs=1)

    def case(transport, mapped):
        return [run(options, transport, mapped) for _ in range(options.runs)][-1]

    run_cases([(f"abort while rank 0 stands still, over {t}{', in memory that is lent' if m else ''}", lambda t=t, m=m: case(t, m))
               for t in options.transports for m in ((0, 1) if t == "shm" else (0,))], at_once=6)


main()
