"""What Fabring adds to a rank's memory: as it says itself, and as the kernel counts it (Pss of anonymous and of shared memory,
so that what two ranks share is counted once; code is left out). One line of a table in docs/memory.md:

    FABRING_TRANSPORT=tcp fabring run -n 4 -- python benchmarks/held_memory.py
"""

import json
import os
import subprocess

import numpy

import fabring

MEBIBYTE = 1 << 20


def counted() -> int:
    kinds = ("Pss_Anon:", "Pss_Shmem:")
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(kinds))


def held(world: fabring.Communicator) -> int:
    """The most that any rank says it holds."""
    if world.rank != 0:
        return 0
    told = subprocess.run(["fabring", "status", str(os.getpid()), "--json"], check=True, capture_output=True, text=True)
    return max(rank["memory"]["held"] for rank in json.loads(told.stdout)["jobs"][0]["ranks"] if "memory" in rank)


def main() -> None:
    data = numpy.ones(int(os.environ.get("BYTES", 64 * MEBIBYTE)) // 4, numpy.float32)
    result = numpy.ones_like(data)
    before = counted()
    world = fabring.init()
    world.barrier()
    rows = []
    for calls in (0, 3):
        for _ in range(calls):
            world.allreduce(data, out=result)
        world.barrier()
        grown = world.allreduce(counted() - before, op="max")
        world.barrier()
        rows.append((held(world), int(grown)))
        world.barrier()  # they stay to be asked
    if world.rank == 0:
        print(f"{world.size} ranks: after the start {rows[0][0] / MEBIBYTE:.1f} MiB said, {rows[0][1] / MEBIBYTE:.1f} counted; "
              f"after allreduces {rows[1][0] / MEBIBYTE:.1f} said, {rows[1][1] / MEBIBYTE:.1f} counted; "
              f"allowed {32 + (world.size - 1) / 16:.1f}")


main()
