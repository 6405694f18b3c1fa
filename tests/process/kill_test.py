"""kill -9 of any rank at any moment: every survivor has an error naming it and its host within two seconds, nearly all within one, and no sum is wrong."""

import random
import signal
import time

import harness
from harness import Failed, Job, arguments, quantiles, require, require_error, run_cases

SIZES = "4,64,1024,8192,65536,262144,1048576,4194304,16777216"
ASYNC_SIZES = "4,8192,65536,1048576,4194304"
LIMIT = 2.0  # seconds from the kill to the end of each survivor
MOST_WITHIN = 1.0  # and of 99 in 100 of them


def until(job, seconds):
    """Lets the job run for a time that is the experiment's own parameter; an early end of a rank ends it too."""
    first = job.ranks[0]
    with first.changed:
        first.changed.wait_for(lambda: first.exit_code is not None, seconds)


def kill(job, victim):
    killed = time.monotonic()
    return killed, job.ranks[victim].signal(signal.SIGKILL)


def no_wrong_sum(job, victim):
    for rank in job.others(victim):
        require(not rank.find("wrong") and rank.exit_code != 1, f"rank {rank.number} has a wrong sum")


def running(job, choose, victim, times):
    verb, sizes = choose.choice([("loop", SIZES), ("loop", SIZES), ("async window=4", ASYNC_SIZES)])
    commands = [f"{verb} steps=0 sizes={sizes} seed={choose.randrange(1 << 30)}"]
    nodes = choose.choice([1, 2])  # two: hierarchical plans
    for number in range(job.size):
        job.start(number, commands, {"FABRING_HOST_ID": f"node{number % nodes}"})
    job.wait_event("step", 30)
    until(job, choose.uniform(0, 0.3))
    killed, _ = kill(job, victim)
    for rank in job.others(victim):
        rank.wait_exit(LIMIT + 5)
        require(rank.exit_code == 3, f"rank {rank.number} ended with {rank.exit_code}")
        error = require_error(rank, "peer_lost", victim)
        require(error["collective"] == "allreduce" and error["sequence"] > 0, "the error does not say which operation")
        times.append(rank.exit_time - killed)
        require(times[-1] <= LIMIT * harness.slowness, f"rank {rank.number} took {times[-1]:.3f} s")


def starting(job, choose, victim, times):
    harness.limit_start(job)
    job.start_all([f"loop steps=0 sizes={SIZES}"])
    until(job, choose.uniform(0, 0.15))
    killed, _ = kill(job, victim)
    for rank in job.others(victim):
        error, second_hand = harness.require_error_of_start(job, rank, victim, killed, LIMIT)
        if second_hand:
            print(f"rank {rank.number} named rank {victim} at second hand while starting", flush=True)
        if error["code"] == "peer_lost":
            times.append(rank.exit_time - killed)


def leaving(job, choose, victim, times):
    # One rank is late, so that the others are inside leave() for a while.
    late = choose.randrange(job.size)
    job.start_all(lambda number: ["loop steps=10 sizes=4,65536"] + (["work ms=50"] if number == late else []) + ["leave"])
    job.ranks[victim].wait_event("leaving", 30)
    # Its part of the last operation may end before another's does, which then fails as it should.
    for rank in job.ranks:
        rank.wait_event("done", 30)
    until(job, choose.uniform(0, 0.06))
    killed, _ = kill(job, victim)
    for rank in job.others(victim):
        rank.wait_exit(LIMIT + 15)
        # Its goodbye may have been said before: then nobody minds.
        require(rank.exit_code in (0, 3), f"rank {rank.number} ended with {rank.exit_code}")
        if rank.exit_code == 3:
            require_error(rank, "peer_lost", victim)
        require(rank.find("done"), f"rank {rank.number} had not finished its operations")
        times.append(rank.exit_time - killed)
        require(times[-1] <= LIMIT * harness.slowness, f"rank {rank.number} took {times[-1]:.3f} s")


def run(options, transport, number, times):
    choose = random.Random(options.seed * 1000 + number)
    size = choose.randint(2, 6)
    victim = choose.choice([0, choose.randrange(size)])
    # The first runs of the short form have one of each.
    phase = (running, starting, leaving)[number % 3] if number < 3 else choose.choices((running, starting, leaving), (5, 2, 1))[0]
    with Job(options.program, size, transport) as job:
        try:
            phase(job, choose, victim, times)
            no_wrong_sum(job, victim)
        except Failed as error:
            raise Failed(f"run {number} ({phase.__name__}, {size} ranks, victim {victim}): {error}")


def main():
    options = arguments(__doc__, runs=8, several_hosts=True)

    def case(transport):
        times = []
        for number in range(options.runs):
            run(options, transport, number, times)
        harness.require_most_within(times, MOST_WITHIN)
        return "from the kill to the end of a survivor: " + quantiles(times)

    run_cases([(f"{options.runs} kills over {t}", lambda t=t: case(t)) for t in options.transports], at_once=2)


main()
