"""Groups without a rank that was killed go on, and the next death is told as soon as the first: each group's survivor has
an error that names the rank that it has lost. Ranks that have lost one make a subgroup of themselves and go on in it."""

import signal
import time

import harness
from harness import Job, arguments, quantiles, require, require_error, run_cases

LIMIT = 4.0  # seconds from a kill to the end of who waits for that rank: where nobody tells of it, it is tried twice a second


def run(options, transport, victims):
    times = []
    with Job(options.program, 4, transport) as job:
        # The groups {0, 2} and {1, 3}.
        job.start_all(lambda rank: [f"split name=A colour={rank % 2} key={rank}", "loop on=A steps=0 every=10 sizes=4,65536,1048576"])
        for victim in victims:
            survivor = job.ranks[victim - 2]
            for rank in (survivor, job.ranks[victim]):
                rank.wait_event("step", 30, start=len(rank.events))  # it runs, also after the first death
            killed = time.monotonic()
            job.ranks[victim].signal(signal.SIGKILL)
            survivor.wait_exit(LIMIT + 20)
            require(survivor.exit_code == 3, f"rank {survivor.number} ended with {survivor.exit_code}")
            require_error(survivor, "peer_lost", victim)
            times.append(survivor.exit_time - killed)
            require(times[-1] <= LIMIT * harness.slowness, f"rank {survivor.number} took {times[-1]:.3f} s")
    return times


def go_on(options, transport, victims):
    """All ranks sum on world until one is killed, and those who are left in a subgroup of themselves, until that loses one.
    Whose call ends first has nothing to do until the others' calls have ended, and must give back what those still need."""
    with Job(options.program, 4, transport) as job:
        job.start_all(["serve"])
        job.wait_event("serving", 30)
        left, group = list(job.ranks), "world"
        for number, victim in enumerate(victims, 1):
            left = job.kill_in_a_loop(victim, group, left)
            for rank in left:
                rank.wait_event("error", LIMIT + 20, lambda event: event["rank"] == victim)
                require(rank.errors()[-1]["code"] == "peer_lost", f"rank {rank.number}: {rank.errors()[-1]}")
            group = f"without{number}"
            for rank in left:
                rank.say(f"subgroup name={group} number={number} ranks={','.join(str(other.number) for other in left)}")
                rank.say(f"loop on={group} steps=20 sizes=4,65536,4194304")
        for rank in left:
            rank.wait_event("done", 30, lambda event: event["on"] == group)
            rank.say("end")
        for rank in left:
            rank.wait_exit(30)
            require(rank.exit_code == 0, f"rank {rank.number} ended with {rank.exit_code}")


def main():
    options = arguments(__doc__, runs=1)

    def case(transport):
        # Ranks 1, 2 and 3 hear of the others by rank 0, which ends with its group: before the second death or after.
        times = [t for victims in [(3, 2), (2, 3)] * options.runs for t in run(options, transport, victims)]
        return "from a kill to the end of the survivor: " + quantiles(times)

    def survivors(transport):
        lists = [(3, 0), (0,), (1, 2)] * (3 * options.runs)  # what is under way at a death is never the same
        for victims in lists:
            go_on(options, transport, victims)
        return f"{len(lists)} jobs"

    run_cases([(f"one death after the other over {t}", lambda t=t: case(t)) for t in options.transports] +
              [(f"those who are left over {t} go on", lambda t=t: survivors(t)) for t in options.transports], at_once=2)


main()
