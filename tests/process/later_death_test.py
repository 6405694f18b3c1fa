"""Groups without a rank that was killed go on, and the next death is told as soon as the first: each group's survivor has
an error that names the rank that it has lost."""

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


def main():
    options = arguments(__doc__, runs=1)

    def case(transport):
        # Ranks 1, 2 and 3 hear of the others by rank 0, which ends with its group: before the second death or after.
        times = [t for victims in [(3, 2), (2, 3)] * options.runs for t in run(options, transport, victims)]
        return "from a kill to the end of the survivor: " + quantiles(times)

    run_cases([(f"one death after the other over {t}", lambda t=t: case(t)) for t in options.transports], at_once=2)


main()
