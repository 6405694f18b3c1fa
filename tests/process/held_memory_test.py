"""A rank has grown by no more than it says that it holds: after collectives of several sizes, more of them at once than scratch is
for, and when their communicators are gone."""

import harness
from harness import Job, arguments, counted, require, run_cases, status_in_full

MEBIBYTE = 1 << 20
RANKS = 4
# So little that the 16 communicators of a crowd take as much beyond it.
LIMIT = {"FABRING_SCRATCH_BYTES": "8M"}
# What the C library keeps of memory that was freed is not Fabring's.
NOTHING_KEPT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
# For stacks of threads, tables of operations and communicators, and the control plane: 0.6 MiB at most were measured.
BESIDE = 3 * MEBIBYTE // 2
COMMANDS = [
    "loop steps=12 sizes=4,5000,30000,100000,400000,3000000",
    "blocks steps=2 unit=60000",
    "crowd steps=2 unit=700000",
]


def afterwards(options, transport, size):
    """What the kernel counts of each rank, and what it says."""
    with Job(options.program, size, transport, {**LIMIT, **NOTHING_KEPT}) as job:
        job.start_all([*COMMANDS, "serve"])
        job.wait_event("serving", 60)
        told = {rank["rank"]: rank["memory"] for rank in status_in_full(options, job)["ranks"]}
        return [(counted(rank.process.pid), told[rank.number]) for rank in job.ranks]


def held(options, transport):
    """What a rank that is alone has, the same program with the same vectors, is not for the others' sake."""
    (alone, _), = afterwards(options, transport, 1)
    notes = []
    for number, (count, memory) in enumerate(afterwards(options, transport, RANKS)):
        grown, scratch = count - alone, memory["scratch"]
        require(grown <= memory["held"] + BESIDE or harness.slowness > 1,  # a sanitizer has memory for itself
                f"rank {number} has grown by {grown} bytes and says that it holds {memory}")
        require(scratch["held"] <= scratch["limit"], f"rank {number} keeps what was beyond its limit: {scratch}")
        notes.append(f"{memory['held'] / MEBIBYTE:.1f} ({grown / MEBIBYTE:.1f}; scratch at most {scratch['most'] / MEBIBYTE:.1f})")
    return f"MiB held (counted): {', '.join(notes)}"


def main():
    options = arguments(__doc__, runs=1)
    run_cases([(f"memory of {RANKS} ranks over {transport}", lambda transport=transport: held(options, transport))
               for transport in options.transports] * options.runs, at_once=1)


main()
