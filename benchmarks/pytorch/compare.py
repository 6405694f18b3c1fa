#!/usr/bin/env python3
"""Fabring beside Gloo, in the same processes, turn by turn: DDP, FSDP2 and a hundred process groups.

    torchrun --nproc-per-node 4 compare.py [--rounds 5]

communicating: summing the gradients of the model in DDP's buckets of 25 MiB with nothing else going on (FSDP2: gathering
and scattering its shards). Each round measures one backend, then the other; printed is the median over the rounds of the
slowest rank's time, and the ratio's median. Other load of the machine falls on both.
"""

import argparse
import resource
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import fabring.torch  # noqa: F401

BACKENDS = ("gloo", "fabring")
BUCKET_BYTES = 25 << 20


def convolutions():
    """About 9 million weights, 36 MB of gradients, for images of 3 x 32 x 32."""
    torch.manual_seed(0)
    layers, channels = [], 3
    for wide in (32, 64, 128, 256, 512, 1024):
        layers += [torch.nn.Conv2d(channels, wide, 3, padding=1), torch.nn.ReLU()]
        if wide < 1024:
            layers.append(torch.nn.MaxPool2d(2))
        channels = wide
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(1024, 2048), torch.nn.ReLU(),
                               torch.nn.Linear(2048, 1000))


def slowest(seconds):
    worst = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return worst.item()


def timed(function, repeat):
    dist.barrier()
    began = time.perf_counter()
    for _ in range(repeat):
        function()
    return slowest((time.perf_counter() - began) / repeat)


def compare(title, unit, functions, rounds, repeat, value=lambda seconds: 1000 * seconds):
    """functions[backend] is measured; a line of the table."""
    for function in functions.values():
        function()  # connections, buckets
    times = {backend: [] for backend in BACKENDS}
    for turn in range(rounds):
        for backend in BACKENDS if turn % 2 == 0 else reversed(BACKENDS):
            times[backend].append(timed(functions[backend], repeat))
    if dist.get_rank() == 0:
        medians = [value(statistics.median(times[backend])) for backend in BACKENDS]
        ratio = statistics.median(ours / theirs for theirs, ours in zip(times["gloo"], times["fabring"]))
        print(f"| {title} ({unit}) | {medians[0]:.1f} | {medians[1]:.1f} | {ratio:.2f} |", flush=True)


def ddp(groups, arguments):
    images = torch.randn(arguments.batch, 3, 32, 32)
    labels = torch.randint(1000, (arguments.batch,))
    communicate, step = {}, {}
    for backend, group in groups.items():
        model = DistributedDataParallel(convolutions(), process_group=group)
        gradients = torch.zeros(sum(p.numel() for p in model.parameters()))
        buckets = gradients.split(BUCKET_BYTES // 4)

        def sum_gradients(buckets=buckets, group=group):
            for work in [dist.all_reduce(bucket, group=group, async_op=True) for bucket in buckets]:
                work.wait()

        def train(model=model):
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            for parameter in model.parameters():
                parameter.grad = None

        communicate[backend], step[backend] = sum_gradients, train
    compare("DDP, communicating", "ms", communicate, arguments.rounds, 3)
    compare("DDP, a step", "ms", step, arguments.rounds, 3)
    total = arguments.batch * dist.get_world_size()
    compare("DDP, images", "1/s", step, arguments.rounds, 3, lambda seconds: total / seconds)


def fsdp(groups, arguments):
    size = dist.get_world_size()
    tokens = torch.randn(arguments.batch, 64, 512)
    communicate, step = {}, {}
    for backend, group in groups.items():
        mesh = DeviceMesh.from_group(group, "cpu")
        torch.manual_seed(0)
        blocks = [torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True) for _ in range(2)]
        elements = sum(p.numel() for p in blocks[0].parameters()) // size
        shard, whole = torch.zeros(elements), torch.zeros(elements * size)
        model = torch.nn.Sequential(*blocks)
        for block in blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)

        def gather_and_scatter(shard=shard, whole=whole, group=group):
            for _ in range(4):  # two blocks, forward and backward
                dist.all_gather_single(whole, shard, group=group)
            for _ in range(2):
                dist.reduce_scatter_single(shard, whole, group=group)

        def train(model=model):
            model(tokens).square().mean().backward()
            for parameter in model.parameters():
                parameter.grad = None

        communicate[backend], step[backend] = gather_and_scatter, train
    compare("FSDP2, communicating", "ms", communicate, arguments.rounds, 2)
    compare("FSDP2, a step", "ms", step, arguments.rounds, 2)


def many_groups(count=100):
    for backend in BACKENDS:
        dist.barrier()
        before = resident_kib()
        began = time.perf_counter()
        groups = [dist.new_group(backend=backend) for _ in range(count)]
        for group in groups:
            dist.all_reduce(torch.zeros(1), group=group)
        seconds = slowest(time.perf_counter() - began)
        memory = slowest((resident_kib() - before) / 1024)
        if dist.get_rank() == 0:
            print(f"{count} process groups of {dist.get_world_size()} ranks, {backend}: {seconds * 1000:.0f} ms with one "
                  f"all_reduce each, {memory:.1f} MiB", flush=True)


def resident_kib():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8, help="images or rows of a rank")
    parser.add_argument("--only", choices=["ddp", "fsdp", "groups"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {"gloo": dist.new_group(backend="gloo"), "fabring": dist.new_group(backend="fabring")}
    if dist.get_rank() == 0:
        print(f"| {dist.get_world_size()} ranks | Gloo | Fabring | Fabring's time / Gloo's |\n|---|---|---|---|")
    if arguments.only in (None, "ddp"):
        ddp(groups, arguments)
    if arguments.only in (None, "fsdp"):
        fsdp(groups, arguments)
    if arguments.only in (None, "groups"):
        many_groups()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
