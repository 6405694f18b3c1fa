"""A child of fork() of a rank that keeps its engine in a static object: all that it calls there is refused in words, it
returns from main at once, and the ranks go on."""

import harness
from harness import Job, arguments, require, run_cases

LIMIT = 5  # seconds; far from what a child would take that leaves
LEAVE = "30"


def run(options, transport, size):
    with Job(options.program, size, transport, {"FABRING_LEAVE_TIMEOUT": LEAVE}) as job:
        job.start_all(["forks"])
        for rank in job.ranks:
            child = rank.wait_event("forked", 90)
            require(child["status"] == 0, f"the child of rank {rank.number} ended with {child['status']:#x}: {rank.events}")
            require(child["ms"] <= 1000 * LIMIT * harness.slowness, f"the child of rank {rank.number} took {child['ms']} ms")
        job.expect_fine(60)


def main():
    options = arguments(__doc__, runs=1)
    run_cases([(f"children of {size} ranks over {t}", lambda t=t, size=size: run(options, t, size))
               for t in options.transports for size in (2, 3)])


main()
