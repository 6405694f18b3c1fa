"""Random faults: each run draws ranks, nodes, transport, settings, workload, fault and moment by a seed and starts real processes.
No hang, no wrong result, and whoever is left names whose fault it was. tools/faults.sh runs thousands."""

import collections
import concurrent.futures
import random
import signal
import sys
import threading
import time

import harness
from harness import Failed, Job, arguments, quantiles, require, require_error

SIZES = "4,64,1024,8192,65536,262144,1048576,4194304"
LIMIT = 2.0  # seconds from the fault, or from when it may be acted on, to the end of each survivor
MOST_WITHIN = 1.0  # and of 99 in 100 of those of a kill
SILENCE = 3  # seconds until a silent rank is given up, where one is stopped for good
EVER = 1_000_000_000

# What every rank does: for ever, or so many steps where all must end well.
WORKLOADS = {
    "blocking": lambda steps, seed: [f"loop steps={steps} sizes={SIZES} seed={seed}"],
    "queued": lambda steps, seed: [f"async window=4 steps={steps} sizes={SIZES} seed={seed}"],
    "small": lambda steps, seed: [f"loop steps={20 * steps} sizes=4,8,40,1000 seed={seed}"],
    "mapped": lambda steps, seed: [f"loop mapped=1 steps={steps} sizes={SIZES} seed={seed}"],
    "blocks": lambda steps, seed: [f"blocks steps={steps or EVER} unit={1 + seed % 20_000}"],
    "messages": lambda steps, seed: [f"messages steps={steps or EVER} unit={1 + seed % 20_000}"],
    "crossed": lambda steps, seed: [f"crossed steps={steps or EVER} unit={1 + seed % 20_000}"],
}


class Run:
    """What a run drew, from the seed and its number alone."""

    def __init__(self, options, number):
        choose = self.choose = random.Random(options.seed * 1_000_003 + number)
        self.number = number
        self.size = choose.randint(2, 6)
        self.transport = choose.choice(options.transports)
        self.nodes = choose.choice([1, 1, 2])
        if self.transport == "shm" and self.nodes > 1:
            self.transport = "shm,tcp"  # inside a host shared memory, between hosts a network
        self.workload = choose.choice(list(WORKLOADS))
        self.fault = choose.choice([kill, kill, kill_two, kill_at_start, kill_at_end, stop, pause, abort, disagree, nothing])
        if self.fault is abort:
            self.workload = "queued"  # beside the thread that aborts
        if self.fault is disagree:
            self.workload = "blocking"
        self.victim = choose.choice([0, choose.randrange(self.size)])
        self.settings = dict(choose.choice([{}, {}, {"FABRING_SCRATCH_BYTES": "65536"}, {"FABRING_DEPTH": "1"},
                                            {"FABRING_SEGMENT_BYTES": "5000"}, {"FABRING_ALGORITHM": "ring"},
                                            {"FABRING_ALGORITHM": "circulant"}, {"FABRING_SOCKETS_PER_PEER": "3"}]))
        self.moment = choose.uniform(0, 0.5)  # seconds after all are there
        self.seed = choose.randrange(1 << 30)
        self.second_hand = False  # somebody named a rank that had ended because of the fault, not the culprit

    def __str__(self):
        return (f"{self.fault.__name__} of rank {self.victim} of {self.size} on {self.nodes} nodes over {self.transport}, "
                f"{self.workload}, {self.settings or 'no settings'}, after {self.moment:.3f} s")

    def commands(self, steps=0):
        return WORKLOADS[self.workload](steps, self.seed)

    def start(self, job, commands):
        for number in range(self.size):
            job.start(number, commands(number) if callable(commands) else commands,
                      {"FABRING_HOST_ID": f"node{number % self.nodes}"} if self.nodes > 1 else {})

    def wait(self, job):
        """For the moment of the fault, which is part of the experiment; an early end of a rank ends it too."""
        job.wait_event("ready", 40)
        lapse(job, self.moment)


def lapse(job, seconds):
    first = job.ranks[0]
    with first.changed:
        first.changed.wait_for(lambda: first.exit_code is not None, seconds)


def ended_by(run, job, culprits, since, code="peer_lost", limit=LIMIT):
    """All others have ended for this reason, in time; seconds each took."""
    times = []
    for rank in job.others(*culprits):
        rank.wait_exit(limit + 8)
        require(rank.exit_code == 3, f"rank {rank.number} ended with {rank.exit_code}")
        error = require_error(rank, code)
        require(error["rank"] in culprits, f"rank {rank.number}: the error is about rank {error['rank']}, not {culprits}")
        require(f"rank {error['rank']}" in error["text"], f"rank {rank.number}: the text does not name rank {error['rank']}")
        times.append(rank.exit_time - since)
        require(times[-1] <= limit * harness.slowness, f"rank {rank.number} took {times[-1]:.3f} s")
    return times


def kill(run, job):
    run.start(job, run.commands())
    run.wait(job)
    since = time.monotonic()
    job.ranks[run.victim].signal(signal.SIGKILL)
    return ended_by(run, job, [run.victim], since)


def kill_two(run, job):
    second = (run.victim + 1 + run.choose.randrange(run.size - 1)) % run.size
    run.start(job, run.commands())
    run.wait(job)
    since = time.monotonic()
    for victim in (run.victim, second):
        job.ranks[victim].signal(signal.SIGKILL)
    return ended_by(run, job, [run.victim, second], since)


def kill_at_start(run, job):
    harness.limit_start(job)
    run.start(job, run.commands())
    lapse(job, run.moment / 4)
    since = time.monotonic()
    job.ranks[run.victim].signal(signal.SIGKILL)
    times = []
    for rank in job.others(run.victim):
        error, second_hand = harness.require_error_of_start(job, rank, run.victim, since, LIMIT)
        run.second_hand = run.second_hand or second_hand
        if error["code"] == "peer_lost":
            times.append(rank.exit_time - since)
    return times


def kill_at_end(run, job):
    late = run.choose.randrange(run.size)
    for number in range(run.size):
        job.start(number, [*run.commands(steps=6), *(["work ms=50"] if number == late else []), "leave"],
                  {"FABRING_HOST_ID": f"node{number % run.nodes}"} if run.nodes > 1 else {})
    for rank in job.ranks:  # its part of the last operation may end before another's does, which would fail as it should
        rank.wait_event("leaving", 60)
    lapse(job, run.moment / 8)
    since = time.monotonic()
    job.ranks[run.victim].signal(signal.SIGKILL)
    for rank in job.others(run.victim):
        rank.wait_exit(LIMIT + 15)
        # Its goodbye may have been said before: then nobody minds.
        require(rank.exit_code in (0, 3), f"rank {rank.number} ended with {rank.exit_code}")
        if rank.exit_code == 3:
            require_error(rank, "peer_lost", run.victim)
    times = [max(rank.exit_time - since, 0) for rank in job.others(run.victim)]
    require(max(times) <= LIMIT * harness.slowness, f"a rank took {max(times):.3f} s")
    return times


def stop(run, job):
    job.settings["FABRING_SILENCE_TIMEOUT"] = str(SILENCE * harness.slowness)
    run.start(job, run.commands())
    run.wait(job)
    since = time.monotonic()
    job.ranks[run.victim].signal(signal.SIGSTOP)
    return [seconds - SILENCE * harness.slowness
            for seconds in ended_by(run, job, [run.victim], since, limit=SILENCE + LIMIT + 1)]


def pause(run, job):
    run.start(job, [*run.commands(steps=30), "leave"])
    run.wait(job)
    job.ranks[run.victim].signal(signal.SIGSTOP)
    lapse(job, run.choose.uniform(0.02, 1.8))
    job.ranks[run.victim].signal(signal.SIGCONT)
    job.expect_fine(60)
    return []


def abort(run, job):
    run.start(job, [f"background steps=0 window=3 sizes={SIZES} seed={run.seed}", "serve"])
    run.wait(job)
    since = time.monotonic()
    require(job.ranks[run.victim].ask("abort on=world", 5) == 0, "abort failed")
    took = job.ranks[run.victim].find("abort")["microseconds"] / 1e6
    require(took < 1 * harness.slowness, f"abort() took {took:.3f} s")
    times = []
    for rank in job.ranks:
        error = rank.wait_event("error", LIMIT + 5)
        require_error(rank, "aborted", words=["the-test-said-so"])
        times.append(error["t"] - since)
        require(times[-1] <= LIMIT * harness.slowness, f"rank {rank.number} took {times[-1]:.3f} s")
    for rank in job.ranks:
        rank.say("end")
    job.wait_exit(20)
    return times


def disagree(run, job):
    """From some step on the victim sums another length than all others: every rank, the victim too, hears of both."""
    usual, odd = run.choose.sample([int(size) for size in SIZES.split(",")], 2)
    steps = run.choose.randint(1, 30)
    run.start(job, lambda number: [f"loop steps={steps} sizes={SIZES} seed={run.seed}",
                                   f"loop steps=0 sizes={odd if number == run.victim else usual}"])
    job.wait_exit(40)
    # A rank's part of its last right sum may still be under way when others make the odd one, and ends with that.
    since = max(done["t"] for done in (rank.find("done") for rank in job.ranks) if done)
    times = []
    for rank in job.ranks:
        require(rank.exit_code == 3, f"rank {rank.number} ended with {rank.exit_code}")
        error = require_error(rank, "mismatch", words=[f"({usual // 4} x float32", f"({odd // 4} x float32"])
        times.append(error["t"] - since)
        require(times[-1] <= LIMIT * harness.slowness, f"rank {rank.number} took {times[-1]:.3f} s")
    return times


def nothing(run, job):
    run.start(job, [*run.commands(steps=30), "leave"])
    job.expect_fine(60)
    return []


def carried_out(options, run):
    settings = {"FI_PROVIDER": "^psm,psm2,psm3", **run.settings}  # they calibrate a clock by sleeping
    with Job(options.program, run.size, run.transport, settings) as job:
        times = run.fault(run, job)
        for rank in job.ranks:
            require(not rank.find("wrong") and rank.exit_code != 1, f"rank {rank.number} has a wrong result")
        return times


def main():
    options = arguments(__doc__, runs=10)
    # --only 17: that run alone, to see it again; --only 1000+: from there on.
    first = int(options.only.rstrip("+") or 0)
    numbers = range(first, first + 1 if options.only and not options.only.endswith("+") else first + options.runs)
    times, failed, lock, began = collections.defaultdict(list), [], threading.Lock(), time.monotonic()
    drawn, second_hand = collections.Counter(), []

    def one(number):
        run = Run(options, number)
        try:
            taken = carried_out(options, run)
        except Failed as error:
            print(f"FAILED  run {number}: {run}: {error}\n  again: --seed {options.seed} --only {number}", flush=True)
            with lock:
                failed.append(number)
            return
        with lock:
            drawn[run.fault.__name__, run.transport] += 1
            times[run.fault.__name__] += taken
            second_hand.extend([number] if run.second_hand else [])
            done = sum(drawn.values()) + len(failed)
        if done % 50 == 0:
            print(f"{done} of {len(numbers)} runs, {len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(one, numbers))
    for fault in sorted({fault for fault, _ in drawn}):
        by = ", ".join(f"{count} over {transport}" for (each, transport), count in sorted(drawn.items()) if each == fault)
        try:
            if fault.startswith("kill"):
                harness.require_most_within(times[fault], MOST_WITHIN)
            verdict = "ok     "
        except Failed as slow:
            verdict, failed = "FAILED ", [*failed, f"{fault}: {slow}"]
        print(f"{verdict} {fault}: {by}; until the others had ended: {quantiles(times[fault])}")
    if second_hand:
        print(f"named at second hand while starting: {sorted(second_hand)}")
    print(f"{len(numbers)} runs of seed {options.seed}, {len(failed)} failed{': ' + str(failed) if failed else ''}, "
          f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if failed else 0)


main()
