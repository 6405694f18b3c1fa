"""Images per second of a training step, in the manner of tf_cnn_benchmarks: synthetic images, one line for some steps,
the total at the end. Models have the shapes of ResNet-50 and VGG-16, so their gradients do too.

    fabring run -np 4 python throughput.py --model resnet50 --backend horovod
    torchrun --nproc-per-node 4 throughput.py --backend gloo
    python throughput.py --scaling 1,2,4 --backend horovod      # starts the ranks itself; a table of efficiency

Backends: horovod is fabring.horovod; fabring and gloo are torch's DistributedDataParallel over that process group.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=["resnet50", "vgg16"], default="resnet50")
    parser.add_argument("--backend", choices=["gloo", "fabring", "horovod"], default="horovod")
    parser.add_argument("--batch-size", type=int, default=8, help="images per rank and step (8)")
    parser.add_argument("--image-size", type=int, default=64, help="pixels in a row; 224 is the original (64)")
    parser.add_argument("--steps", type=int, default=20, help="timed steps (20)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before (3)")
    parser.add_argument("--display-every", type=int, default=5, help="a line for so many steps (5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each rank (1)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu",
                        help="where the model is; by default cuda where there is a GPU")
    parser.add_argument("--scaling", metavar="LIST", help="numbers of ranks to compare: 1,2,4")
    parser.add_argument("--output", metavar="FILE", help="where rank 0 writes its figures as JSON")
    return parser.parse_args()


# ---- models -----------------------------------------------------------------------------------------------------------


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions around a shortcut."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Identity()
        if stride != 1 or channels != 4 * width:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, stride if block == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def vgg16():
    layers, channels = [], 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *head)


# ---- backends: (rank, size, model, optimizer, mean over ranks) ----------------------------------------------------------


def with_horovod(model, optimizer, device):
    import fabring.horovod as hvd

    hvd.init()
    to_device(model, hvd.local_rank(), device)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    return hvd.rank(), hvd.size(), model, optimizer, lambda x: hvd.allreduce(torch.tensor(x, dtype=torch.float64)).tolist()


def with_process_group(backend, model, optimizer, device):
    import torch.distributed as dist

    if backend == "fabring":
        import fabring.torch  # noqa: F401  # registers the backend
    if "FABRING_RANK" in os.environ and "RANK" not in os.environ:  # under `fabring run`, on one host: meet in a file
        meeting = os.path.join(tempfile.gettempdir(), "throughput-" + os.environ["FABRING_JOB_ID"])
        dist.init_process_group(backend, init_method="file://" + meeting, rank=int(os.environ["FABRING_RANK"]),
                                world_size=int(os.environ["FABRING_WORLD_SIZE"]))
    else:
        dist.init_process_group(backend)

    to_device(model, int(os.environ.get("LOCAL_RANK", os.environ.get("FABRING_LOCAL_RANK", 0))), device)

    def mean(values):
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor)
        return (tensor / dist.get_world_size()).tolist()

    return dist.get_rank(), dist.get_world_size(), nn.parallel.DistributedDataParallel(model), optimizer, mean


def to_device(model, local_rank, device):
    """The optimizer has no state yet, so it need not follow."""
    if device == "cuda":
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        model.cuda()


# ---- one job ------------------------------------------------------------------------------------------------------------


def run(options):
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = {"resnet50": resnet50, "vgg16": vgg16}[options.model]()
    weights = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    if options.backend == "horovod":
        rank, size, model, optimizer, mean = with_horovod(model, optimizer, options.device)
    else:
        rank, size, model, optimizer, mean = with_process_group(options.backend, model, optimizer, options.device)
    images = torch.randn(options.batch_size, 3, options.image_size, options.image_size, device=options.device)
    labels = torch.randint(1000, (options.batch_size,), device=options.device)

    def say(text):
        if rank == 0:
            print(text, flush=True)

    say(f"{options.model}-shaped, {weights} weights, {4 * weights / 1e6:.1f} MB of gradients; {size} ranks, {options.backend}, "
        f"{options.device}, {options.batch_size} images of {options.image_size}x{options.image_size} per rank")
    say("step   images/sec (all ranks)")
    speeds = []
    for step in range(-options.warmup, options.steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if options.device == "cuda":
            torch.cuda.synchronize()
        if step >= 0:
            speeds.append(size * options.batch_size / (time.perf_counter() - began))
            if (step + 1) % options.display_every == 0:
                say(f"{step + 1:4d}   {summary(speeds)}")
    speeds = mean(speeds)  # of the ranks, step by step
    total = options.steps / sum(1 / speed for speed in speeds)
    say(f"total  {summary(speeds)}, harmonic mean {total:.1f}")
    if rank == 0 and options.output:
        with open(options.output, "w") as file:
            json.dump({"model": options.model, "backend": options.backend, "ranks": size, "images_per_second": total,
                       "jitter": jitter(speeds), "speeds": speeds}, file)


def jitter(speeds):
    """Median distance from the median, scaled to a standard deviation."""
    middle = statistics.median(speeds)
    return 1.4826 * statistics.median(abs(speed - middle) for speed in speeds)


def summary(speeds):
    error = statistics.stdev(speeds) / len(speeds) ** 0.5 if len(speeds) > 1 else 0.0
    return f"{statistics.mean(speeds):.1f} +/- {error:.1f} (jitter = {jitter(speeds):.1f})"


# ---- several jobs ---------------------------------------------------------------------------------------------------------


def scaling(options):
    """Runs this script with each number of ranks and compares with the first."""
    given = [f"--{name}={getattr(options, name.replace('-', '_'))}" for name in
             ("model", "backend", "batch-size", "image-size", "steps", "warmup", "threads", "device")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in options.scaling.split(","):
            file = os.path.join(folder, ranks + ".json")
            job = [sys.executable, "-m", "fabring.run", "-n", ranks, "--", os.path.abspath(__file__), *given, "--output", file]
            if (code := subprocess.run(job).returncode) != 0:
                sys.exit(code)
            with open(file) as written:
                rows.append(json.load(written))
    first = rows[0]["images_per_second"] / rows[0]["ranks"]
    print("\nranks   images/sec   jitter   per rank   efficiency")
    for row in rows:
        each = row["images_per_second"] / row["ranks"]
        print(f"{row['ranks']:5d}   {row['images_per_second']:10.1f}   {row['jitter']:6.1f}   {each:8.1f}   {100 * each / first:9.1f}%")


if __name__ == "__main__":
    chosen = arguments()
    scaling(chosen) if chosen.scaling else run(chosen)
