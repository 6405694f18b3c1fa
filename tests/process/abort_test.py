"""abort() of one communicator returns at once and ends its operations although a stopped peer holds full windows; another
communicator of the same processes goes on, before, during, after, and after the stopped peer was killed."""

import signal
import time

import harness
from harness import Job, arguments, require, require_error, run_cases

LARGE = 64 << 20


def expect_b(job, steps):
    """Ranks 0 and 1 run some operations on B, checked."""
    line = f"loop on=B steps={steps} sizes=4,4096,1048576"
    starts = [len(rank.events) for rank in job.ranks[:2]]
    for rank in job.ranks[:2]:
        rank.say(line)
    for rank, start in zip(job.ranks[:2], starts):
        served = rank.wait_event("served", 20, lambda e: e["command"] == line, start)
        require(served["exit"] == 0, f"rank {rank.number}: B ended with {served['exit']}")


def run(options, transport):
    with Job(options.program, 3, transport, {"FABRING_SILENCE_TIMEOUT": "60"}) as job:
        job.start_all(lambda rank: [f"split name=A colour=0 key={rank}",
                                    f"split name=B colour={0 if rank < 2 else -1} key={rank}",
                                    f"background on=A steps=0 sizes={LARGE} window=3 every=1", "serve"])
        job.wait_event("step", 30)
        job.ranks[2].signal(signal.SIGSTOP)
        # Windows are full once ranks 0 and 1 wait; B must go on from the first moment.
        expect_b(job, 20)

        called = time.monotonic()
        require(job.ranks[0].ask("abort on=A", 5) == 0, "abort failed")
        took = job.ranks[0].find("abort")["microseconds"] / 1e6
        require(took < 1 * harness.slowness, f"abort() took {took:.3f} s")
        expect_b(job, 20)
        ends = []
        for rank in job.ranks[:2]:
            error = rank.wait_event("error", 10, lambda e: e["where"] == "async")
            require_error(rank, "aborted", words=["the-test-said-so"])
            rank.wait_event("done", 10, lambda e: e["on"] == "A")
            ends.append(error["t"] - called)
        require(max(ends) < 5 * harness.slowness, f"A's operations took {max(ends):.3f} s to end")
        expect_b(job, 50)

        job.ranks[2].signal(signal.SIGKILL)
        for rank in job.ranks[:2]:
            require(rank.ask("loop sizes=4 steps=0", 5) == 3, "the world did not fail")
            require(rank.errors()[-1]["code"] == "peer_lost" and rank.errors()[-1]["rank"] == 2,
                    f"rank {rank.number}: the world's error is not the loss of rank 2")
        expect_b(job, 50)
        for rank in job.ranks[:2]:
            rank.say("end")
        for rank in job.ranks[:2]:
            require(rank.wait_exit(10) == 0, f"rank {rank.number} ended with {rank.exit_code}")
        return f"abort() {took * 1e3:.1f} ms, its operations ended after {max(ends):.3f} s"


def main():
    options = arguments(__doc__, runs=1)

    def case(transport):
        return [run(options, transport) for _ in range(options.runs)][-1]

    run_cases([(f"abort beside a stopped peer over {t}", lambda t=t: case(t)) for t in options.transports], at_once=6)


main()
