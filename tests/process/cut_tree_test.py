"""When rank 0, by which all others hear of each other, has died or left, those who stay still hear: that a rank aborted their
group, though it lives on, and that one is stopped."""

import signal
import time

import harness
from harness import Job, arguments, quantiles, require, require_error, run_cases

SILENCE = 4
LIMIT = 3.0  # seconds until it is heard


def run(options, transport, dies, stopped):
    with Job(options.program, 4, transport, {"FABRING_SILENCE_TIMEOUT": str(SILENCE * harness.slowness),
                                             "FABRING_LEAVE_TIMEOUT": "0.5"}) as job:
        job.start_all(lambda rank: [f"split name=A colour={0 if rank > 0 else -1} key={rank}", "serve"])
        job.wait_event("serving", 30)
        if dies:
            job.ranks[0].signal(signal.SIGKILL)
        else:
            job.ranks[0].say("end")
        job.ranks[0].wait_exit(20)
        waiting = (job.ranks[1], job.ranks[3])
        for rank in job.ranks[1:]:
            rank.say("loop on=A steps=3 sizes=4,65536")
        for rank in job.ranks[1:]:
            served = rank.wait_event("served", 20)
            require(served["exit"] == 0, f"rank {rank.number}: the group ended with {served['exit']}")
        for rank in waiting:
            rank.say("loop on=A steps=1 sizes=4")
        began = time.monotonic()
        if stopped:
            job.ranks[2].signal(signal.SIGSTOP)
        else:
            job.ranks[2].say("abort on=A")
        heard = []
        for rank in waiting:
            event = rank.wait_event("error", SILENCE * (1 if stopped else 0) + LIMIT)
            require_error(rank, "peer_lost" if stopped else "aborted", 2 if stopped else None)
            heard.append(event["t"] - began)
        if not stopped:
            require(job.ranks[2].exit_code is None, "rank 2 does not live on")
            for rank in job.ranks[1:]:
                rank.say("end")
            for rank in job.ranks[1:]:
                rank.wait_exit(20)
        return heard


def main():
    options = arguments(__doc__, runs=1)

    def case(transport, stopped):
        times = [t for dies in (True, False) for _ in range(options.runs) for t in run(options, transport, dies, stopped)]
        return "until the others heard of it: " + quantiles(times)

    run_cases([(f"{'a stop' if stopped else 'an abort'} without rank 0 over {t}", lambda t=t, s=stopped: case(t, s))
               for t in options.transports for stopped in (False, True)], at_once=6)


main()
