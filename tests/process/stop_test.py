"""A stopped rank: named as suspect by every other rank, fatal only after FABRING_SILENCE_TIMEOUT; one that comes back in time is forgiven,
and so is a stop of all."""

import signal
import time

import harness
from harness import Job, arguments, named_after, processor_seconds, require, require_error, require_named_once, run_cases

LOOP = "loop steps=0 sizes=4,65536,1048576,4194304 every=5"


def pause(rank, seconds):
    """Not a wait for anything: the length of the stop is what is tested."""
    with rank.changed:
        rank.changed.wait_for(lambda: rank.exit_code is not None, seconds)


def comes_back(options, transport, victim):
    with Job(options.program, 3, transport) as job:
        job.start_all([LOOP])
        job.wait_event("step", 30)
        stopped = time.monotonic()
        job.ranks[victim].signal(signal.SIGSTOP)
        pause(job.ranks[(victim + 1) % 3], 2.0)
        counts = [len(rank.events) for rank in job.ranks]
        job.ranks[victim].signal(signal.SIGCONT)
        took = time.monotonic() - stopped
        for rank, start in zip(job.ranks, counts):
            rank.wait_event("step", 10, start=start)
            require(not rank.errors(), f"rank {rank.number}: a stop of 2 s was an error")
            require(took > 2.5 or not any(harness.suspected(line, victim) for _, line in rank.log),
                    f"rank {rank.number}: rank {victim} was suspected after {took:.1f} s")


def named_by_all(options, transport, size, victim, how):
    """Whoever waits says for whom within 5 s, and when it is back goes on as if nothing had been."""
    with Job(options.program, size, transport) as job:
        job.start_all([f"{how} steps=0 sizes=4,65536,1048576 every=5"])
        job.wait_event("step", 30)
        stopped = time.monotonic()
        job.ranks[victim].signal(signal.SIGSTOP)
        named = max(named_after(rank, stopped, victim) for rank in job.others(victim))
        counts = [len(rank.events) for rank in job.ranks]
        job.ranks[victim].signal(signal.SIGCONT)
        require(named < 5.0 * harness.slowness, f"named in every log only after {named:.1f} s")
        for rank, start in zip(job.ranks, counts):
            if rank.number != victim:
                rank.wait_log((f"rank {victim}", "is back"), 5)
            rank.wait_event("step", 10, start=start)
            require(not rank.errors(), f"rank {rank.number}: a stop of {named:.1f} s was an error")
        return f"named after {named:.1f} s"


def leaves_the_core(options, transport, how):
    """A rank for each of two cores, so that they spin before they sleep: a wait that begins anew again and again shows.
    async: beside a progress thread, which has nothing to do meanwhile."""
    with Job(options.program, 2, transport) as job:
        job.start_all([LOOP.replace("loop", how)])
        job.wait_event("step", 30)
        job.ranks[1].signal(signal.SIGSTOP)
        pause(job.ranks[0], 0.5)
        share = min(processor_share(job.ranks[0], 0.5) for _ in range(4))  # what begins anew again and again is in each
        job.ranks[1].signal(signal.SIGCONT)
        require(share < 0.03 * harness.slowness, f"rank 0 took {share:.1%} of a core to wait")
        return f"{share:.1%} of a core"


def processor_share(rank, seconds):
    before, since = processor_seconds(rank.process.pid), time.monotonic()
    pause(rank, seconds)
    return (processor_seconds(rank.process.pid) - before) / (time.monotonic() - since)


def stays_away(options, transport, victim):
    with Job(options.program, 3, transport, {"FABRING_SILENCE_TIMEOUT": "6"}) as job:
        job.start_all([LOOP])
        job.wait_event("step", 30)
        stopped = time.monotonic()
        job.ranks[victim].signal(signal.SIGSTOP)
        others = job.others(victim)
        named = max(named_after(rank, stopped, victim) for rank in others)
        ends = []
        for rank in others:
            require(rank.wait_exit(15) == 3, f"rank {rank.number} ended with {rank.exit_code}")
            require_error(rank, "peer_lost", victim)
            require_named_once(rank, victim)  # also when those that lose rank 0 join, and tell each other what they know
            ends.append(rank.exit_time - stopped)
        require(min(ends) >= 5.0, f"given up after {min(ends):.1f} s, before FABRING_SILENCE_TIMEOUT")
        require(max(ends) <= 6 + 3 * harness.slowness, f"given up after {max(ends):.1f} s, long after FABRING_SILENCE_TIMEOUT")
        require(named < 5.0 * harness.slowness, f"named in every log only after {named:.1f} s")
        job.ranks[victim].signal(signal.SIGCONT)  # it is told, and should not send anybody to look for a death
        require(job.ranks[victim].wait_exit(15) == 3, f"rank {victim} ended with {job.ranks[victim].exit_code}")
        require_error(job.ranks[victim], "peer_lost", victim, words=("has been silent for",))
        return f"named after {named:.1f} s, given up after {max(ends):.1f} s"


def all_stop(options, transport):
    """As Slurm suspends a job and a host is frozen: for longer than FABRING_SILENCE_TIMEOUT, which was nobody's silence."""
    with Job(options.program, 4, transport, {"FABRING_SILENCE_TIMEOUT": "4"}) as job:
        job.start_all([LOOP])
        job.wait_event("step", 30)
        for rank in job.ranks:
            rank.signal(signal.SIGSTOP)
        pause(job.ranks[0], 6.0)
        counts = [len(rank.events) for rank in job.ranks]
        for rank in job.ranks:
            rank.signal(signal.SIGCONT)
        for rank, start in zip(job.ranks, counts):
            rank.wait_event("step", 15, start=start)
            require(not rank.errors(), f"rank {rank.number}: {rank.errors()}")
            require(not any(harness.suspected(line, *range(4)) for _, line in rank.log), f"rank {rank.number} suspects another")


def main():
    options = arguments(__doc__, runs=1)
    cases, measured = [], []
    for transport in options.transports:
        cases.append((f"all ranks stop and go on over {transport}", lambda t=transport: all_stop(options, t)))
        for victim in (0, 1) if options.runs == 1 else [run % 3 for run in range(options.runs)]:
            cases.append((f"rank {victim} stops for 2 s over {transport}",
                          lambda t=transport, v=victim: comes_back(options, t, v)))
        for size, victim, how in ((3, 1, "loop"), (4, 3, "async")) if transport != "tcp" else ((4, 0, "async"), (12, 1, "loop")):
            cases.append((f"rank {victim} of {size} stops over {transport} and every other one says so ({how})",
                          lambda t=transport, s=size, v=victim, h=how: named_by_all(options, t, s, v, h)))
        for how in ("loop", "async"):
            measured.append((f"who waits for a stopped rank over {transport} leaves its core to others ({how})",
                             lambda t=transport, h=how: leaves_the_core(options, t, h)))
        for victim in (0, 2) if options.runs == 1 else [run % 3 for run in range(options.runs)]:
            cases.append((f"rank {victim} stops for ever over {transport}",
                          lambda t=transport, v=victim: stays_away(options, t, v)))
    cases, measured = ([case for case in some if options.only in case[0]] for some in (cases, measured))
    run_cases(cases, at_once=8, then=measured, then_at_once=2)


main()
