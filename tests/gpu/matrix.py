#!/usr/bin/env python3
"""Every collective on buffers in memory of a GPU, every element checked, over each transport. On a machine with a GPU as it
is; with --fake DIR on a driver made of memory, whose copies end late and which crashes who touches its memory."""
import argparse
import itertools
import os
import subprocess
import sys
import time

COLLECTIVES = ["allreduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "gather", "scatter", "alltoall"]
# Kinds of elements and reductions that take other ways through the kernels.
TYPES = [("float32", "sum"), ("bfloat16", "avg"), ("float64", "max"), ("int8", "prod"), ("float16", "min"),
         ("float8_e4m3", "max"), ("uint64", "bitwise_xor"), ("bool", "logical_or"), ("int32", "premul_sum")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fabring", required=True)
    parser.add_argument("--fake")
    parser.add_argument("--transports", default="shm,tcp")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--sizes", default="4,20K,1M,16M")
    parser.add_argument("--seconds", type=float, default=100)
    options = parser.parse_args()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FABRING_")}
    if options.fake:
        environment["LD_LIBRARY_PATH"] = options.fake + ":" + environment.get("LD_LIBRARY_PATH", "")
    types = itertools.cycle(TYPES)
    begun, done, failed = time.monotonic(), 0, []
    for transport in options.transports.split(","):
        for ranks in options.ranks.split(","):
            for collective in COLLECTIVES:
                if time.monotonic() - begun > options.seconds:
                    print(f"stopped after {options.seconds:.0f} s", flush=True)
                    return 1
                kind, op = next(types)
                command = [options.fabring, "perf", collective, "-n", ranks, "--memory", "cuda", "--sizes", options.sizes,
                           "-d", kind, "-w", "1", "-i", "2", "--transport", transport]
                if collective in ("allreduce", "reduce", "reduce_scatter"):
                    command += ["-o", op]
                environment["FAKE_CUDA_SEED"] = str(done + 1)
                try:
                    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
                except subprocess.TimeoutExpired as late:
                    failed.append(" ".join(command))
                    said = (late.stdout or b"") + (late.stderr or b"")
                    print(f"not done in 60 s: {' '.join(command)}\n{said.decode()}", flush=True)
                    continue
                done += 1
                good = run.returncode == 0 and ": 0 OK" in run.stdout.replace("values :", "values:") and "memory of" in run.stdout
                print(f"{'ok' if good else 'WRONG'}  {transport} {ranks} ranks {collective} {kind}", flush=True)
                if not good:
                    failed.append(" ".join(command))
                    print(run.stdout + run.stderr, flush=True)
    print(f"{done} measurements, {len(failed)} wrong, {time.monotonic() - begun:.1f} s")
    return 1 if failed or done == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
