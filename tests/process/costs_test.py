"""What an engine that is not used costs its process: how often it wakes, processor time, memory by its own account and by the kernel's, and the time
until many ranks are ready. The bounds are some times what is measured."""

import contextlib
import glob
import threading
import time

import harness
from harness import Job, arguments, counted, processor_seconds, require, run_cases, status_in_full

MEBIBYTE = 1 << 20
WAKES = 20  # in a second, all threads of a rank; 5 to 7 were measured
SPINNING = 0.5  # of a processor, all four ranks together; 0.002 was measured, 0.03 where other machines' work was counted, too
SHARE = 0.5  # of what the kernel counts is in the account at least; 0.8 was measured over shm, more than all elsewhere
READY = 10  # seconds for 16 ranks; 0.5 to 2.2 were measured on two busy cores


@contextlib.contextmanager
def idle_job(options, transport, size):
    """Its ranks have summed a few vectors and wait for words."""
    with Job(options.program, size, transport) as job:
        job.start_all(["loop steps=3 sizes=4,65536,8388608", "serve"])
        job.wait_event("serving", 30)
        yield job


def wakes(pid):
    """How often threads of it have gone to sleep: what a rank does by itself, however long the machine takes for that."""
    slept = 0
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        with open(path, encoding="ascii") as lines:
            slept += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches:"))
    return slept


def idle(options, transport):
    with idle_job(options, transport, 4) as job:
        pids = [rank.process.pid for rank in job.ranks]
        began, spent, slept = time.monotonic(), sum(map(processor_seconds, pids)), list(map(wakes, pids))
        threading.Event().wait(1)  # the second that is measured
        took = time.monotonic() - began
        share = (sum(map(processor_seconds, pids)) - spent) / took
        rates = [round((wakes(pid) - before) / took) for pid, before in zip(pids, slept)]
        require(max(rates) < WAKES, f"4 idle ranks wake {rates} times a second")
        require(share < SPINNING, f"4 idle ranks take {share:.2%} of a processor")
        return f"{share:.2%} of a processor, awake {rates} times a second"


def memory(options, transport):
    """What a rank that is alone has, the same program with the same vectors, is not for the others' sake."""
    with idle_job(options, transport, 1) as alone:
        base = counted(alone.ranks[0].process.pid)
    with idle_job(options, transport, 4) as job:
        told = {rank["rank"]: rank["memory"]["held"] for rank in status_in_full(options, job)["ranks"]}
        notes = []
        for rank in job.ranks:
            held, grown = told[rank.number], counted(rank.process.pid) - base
            require(held <= 32 * MEBIBYTE + 3 * 64 * 1024, f"rank {rank.number} holds {held} bytes")
            # Where there is a sanitizer, what it has for itself is counted, too.
            require(held >= SHARE * grown or harness.slowness > 1,
                    f"rank {rank.number} says it holds {held} bytes, but has grown by {grown}")
            notes.append(f"{held / MEBIBYTE:.1f} ({grown / MEBIBYTE:.1f})")
        return f"MiB held (counted): {', '.join(notes)}"


def ready(options, transport):
    with Job(options.program, 16, transport) as job:
        began = time.monotonic()
        job.start_all(["leave"])
        job.wait_event("ready", READY)
        took = time.monotonic() - began
        require(took < READY * harness.slowness, f"it took {took:.2f} s")
        job.expect_fine(30)
        return f"{took:.2f} s"


def main():
    options = arguments(__doc__, runs=1)

    def cases(*kinds):
        named = [(f"{name}, {transport}", lambda case=case, transport=transport: case(options, transport))
                 for transport in options.transports for name, case in kinds]
        return [case for case in named if options.only in case[0]] * options.runs

    run_cases(cases(("memory of 4 ranks", memory)), at_once=3, then=cases(("4 idle ranks", idle), ("16 ranks are ready", ready)))


main()
