"""kill -9 of a rank that has a child of fork(), as a data loader has: the child lives on, and the others have the error that
names the rank as soon as without it, know that it has ended, and go on. The child's own files are left alone."""

import time

import harness
from harness import Job, arguments, quantiles, require, run_cases, socket_inodes

LIMIT = 2.0  # seconds from the kill to the error of each survivor
MOST_WITHIN = 1.0
JOBS = [(2, 0), (2, 1), (3, 0), (4, 2)]  # ranks, and who is killed: of two, who is left goes on only if the other has ended


def run(options, transport, size, victim):
    with Job(options.program, size, transport) as job:
        job.start_all(["serve"])
        job.wait_event("serving", 30)
        killed_rank = job.ranks[victim]
        killed_rank.say("worker")
        worker = killed_rank.wait_event("worker", 30)["pid"]
        if transport != "fabric":  # libfabric's own are out of reach
            shared = socket_inodes(worker) & socket_inodes(killed_rank.process.pid)
            require(not shared, f"the child has {len(shared)} sockets of its parent")
        left = job.kill_in_a_loop(victim, "world", job.ranks)
        killed = time.monotonic()
        errors = [rank.wait_event("error", LIMIT + 20) for rank in left]
        for rank, error in zip(left, errors):
            require(error["code"] == "peer_lost" and error["rank"] == victim, f"rank {rank.number}: {error}")
        times = [error["t"] - killed for error in errors]
        require(max(times) <= LIMIT * harness.slowness, f"an error only after {max(times):.3f} s: {errors}")
        for rank in left:
            rank.say("shrink on=world name=left")
        for rank in left:
            event = rank.wait_event("shrink", 30)
            require(event["code"] == "ok" and event["size"] == size - 1, f"rank {rank.number}: {event}")
            rank.say("loop on=left steps=3 sizes=4,1048576")
        for rank in left:
            rank.wait_event("done", 30, lambda event: event["on"] == "left")
        killed_rank.say("end")
        changed = killed_rank.wait_event("worker_end", 30)["changed"]
        require(changed == 0, f"{changed} files of the child are not what they were")
    return times


def main():
    options = arguments(__doc__, runs=1)

    def case(transport):
        times = [t for size, victim in JOBS * options.runs for t in run(options, transport, size, victim)]
        harness.require_most_within(times, MOST_WITHIN)
        return "from the kill to the error of a survivor: " + quantiles(times)

    run_cases([(f"{len(JOBS) * options.runs} ranks with a child killed over {t}", lambda t=t: case(t)) for t in options.transports])


main()
