#!/usr/bin/env python3
"""The gradients of a training step in memory of GPUs of one host: right, and none of them passes through the host, however
many operations are under way. One call for all tensors is packed by the processor: only right.

    training_step.py --fabring build/release/tools/fabring [--fake FOLDER] [--model resnet50] [--ranks 2,3]
"""
import argparse
import json
import os
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fabring", required=True)
    parser.add_argument("--fake", help="folder of a libcuda.so.1 of the tests' own")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--ranks", default="2,3")
    parser.add_argument("--steps", default="2")
    options = parser.parse_args()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FABRING_")}
    if options.fake:
        environment["LD_LIBRARY_PATH"] = options.fake + ":" + environment.get("LD_LIBRARY_PATH", "")
    good = True
    for ranks in options.ranks.split(","):
        command = [options.fabring, "perf", "--model", options.model, "-n", ranks, "--transport", "shm", "--memory", "cuda",
                   "-w", "1", "-i", options.steps, "--json"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
        if run.returncode != 0:
            print(f"{' '.join(command)}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
            return 1
        for row in json.loads(run.stdout):
            share = row["wire_bytes_per_rank"] / row["least_wire_bytes"]
            right = row["wrong"] == 0 and (share < 0.02 or row["kind"] == "grouped")
            good &= right
            print(f"{'ok ' if right else 'NO '} {options.model}, {ranks} ranks, {row['kind']}: {row['calls']} calls, "
                  f"{row['time_us'] / 1000:.2f} ms a step, {row['wrong']} wrong, {100 * share:.1f}% of the data through the host")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
