#!/usr/bin/env python3
"""all_reduce of Fabring beside Gloo's, in the same processes, turn by turn, on memory of the host or of a GPU (which the
ranks may share).

    torchrun --nproc-per-node 2 allreduce.py [--device cuda] [--sizes 1024,65536,1048576] [--rounds 5]

Printed is the median over the rounds of the slowest rank's time, in microseconds, until the result is there.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
parser.add_argument("--sizes", default="8,1024,65536,1048576,16777216,67108864", help="bytes")
parser.add_argument("--rounds", type=int, default=5)
options = parser.parse_args()
cuda = options.device == "cuda"
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("gloo")
groups = {name: dist.new_group(backend=name) for name in ("gloo", "fabring")}


def timed(group, tensor, repeat):
    dist.barrier()
    began = time.perf_counter()
    for _ in range(repeat):
        dist.all_reduce(tensor, group=group)
        if cuda:
            torch.cuda.synchronize()
    worst = torch.tensor((time.perf_counter() - began) / repeat, dtype=torch.float64)
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return worst.item()


if dist.get_rank() == 0:
    print(f"{'bytes':>12} {'gloo':>12} {'fabring':>12} {'gloo/fabring':>14}")
for size in map(int, options.sizes.split(",")):
    tensor = torch.zeros(max(size // 4, 1), device=device)
    repeat = max(3, min(100, (64 << 20) // size))
    times = {name: [] for name in groups}
    for name, group in groups.items():
        timed(group, tensor, 2)
    for _ in range(options.rounds):
        for name, group in groups.items():
            times[name].append(timed(group, tensor, repeat))
    if dist.get_rank() == 0:
        ratio = statistics.median(a / b for a, b in zip(times["gloo"], times["fabring"]))
        gloo, ours = (1e6 * statistics.median(times[name]) for name in groups)
        print(f"{size:>12} {gloo:>12.1f} {ours:>12.1f} {ratio:>14.2f}", flush=True)
dist.destroy_process_group()
