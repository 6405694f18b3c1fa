"""DDP, streams, works and futures on CUDA tensors; every rank may share one GPU.

    torchrun --nproc-per-node 2 tests/gpu/ddp.py [--device cpu]

Run from run.sh; on the host's memory, where streams are nothing, from tests/torch.
"""
import argparse
import contextlib
import os

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

parser = argparse.ArgumentParser()
parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
cuda = parser.parse_args().device == "cuda"
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", rank % torch.cuda.device_count()) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("fabring")
everybody = size * (size + 1) // 2  # the sum of rank + 1


def stream():
    return torch.cuda.Stream() if cuda else None


def on(stream):
    return torch.cuda.stream(stream) if cuda else contextlib.nullcontext()


def late(value, count=1 << 20):
    """A tensor whose value is there only when slow work of the current stream is done."""
    made = torch.zeros(count, device=device)
    if cuda:
        torch.cuda._sleep(50_000_000)
    made += value
    return made


def holds(tensor, value):
    if cuda:
        torch.cuda.synchronize()
    assert torch.all(tensor == value), (tensor[:4], value)


# On a side stream, behind slow work: ordered, or wrong. First as DDP calls, then as FSDP2 does, without a work.
side = stream()
with on(side):
    x = late(rank + 1)
    dist.all_reduce(x, async_op=True).wait()
    y = x * 2
    z = late(rank + 1)
    dist.all_reduce(z)
    w = z * 2
holds(y, everybody * 2)
holds(w, everybody * 2)

# Waited for on another stream than it was called on, several at once, the last first.
streams = [stream() for _ in range(4)]
begun = []
for number, one in enumerate(streams):
    with on(one):
        tensor = late((rank + 1) * 10**number, 1000 + number)
        begun.append((tensor, dist.all_reduce(tensor, async_op=True)))
for number, (tensor, work) in reversed(list(enumerate(begun))):
    work.wait()
    holds(tensor + 1, everybody * 10**number + 1)

# Memory that a work nobody waits for uses is not given to others before.
for _ in range(20):
    dist.all_reduce(torch.full((1 << 18,), 1.0, device=device), async_op=True)
    torch.full((1 << 18,), 7.0, device=device)
last = late(1.0)
dist.all_reduce(last)
holds(last, size)

# Futures: their callbacks see the result on whatever stream they run.
future = dist.all_reduce(late(rank + 1, 5), async_op=True).get_future()
assert torch.equal(future.then(lambda f: f.value()[0] + 1).wait().cpu(), torch.full((5,), float(everybody + 1)))

# Tensors that are not contiguous; lists; several operations as one; messages.
n = torch.arange(64, device=device, dtype=torch.bfloat16).view(8, 8).t() * (rank == 0)
dist.broadcast(n, 0)
assert torch.equal(n.float().cpu(), torch.arange(64.0).view(8, 8).t()), n
parts = [torch.empty(3, device=device) for _ in range(size)]
dist.all_gather(parts, torch.full((3,), float(rank), device=device))
assert [int(p[0]) for p in parts] == list(range(size))
several = [late(rank + 1, count) for count in (1, 700, 70_000)]
with dist._coalescing_manager(device=None, async_ops=True) as coalesced:
    for tensor in several:
        dist.all_reduce(tensor)
coalesced.wait()
for tensor in several:
    holds(tensor, everybody)
to_next, from_before = late(rank, 70_000), torch.empty(70_000, device=device)
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, to_next, (rank + 1) % size),
                                    dist.P2POp(dist.irecv, from_before, (rank - 1) % size)]):
    work.wait()
holds(from_before, (rank - 1) % size)

# DDP against the same training in one process.
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
alone = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
alone.load_state_dict(model.state_dict())
ddp = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if cuda else None, bucket_cap_mb=0.005)
ours, theirs = (torch.optim.SGD(m.parameters(), lr=0.01) for m in (ddp, alone))
for step in range(50):
    torch.manual_seed(step)
    data = torch.randn(size * 16, 32, device=device)
    for m, optimizer, part in ((ddp, ours, data[rank * 16:(rank + 1) * 16]), (alone, theirs, data)):
        optimizer.zero_grad()
        m(part).square().mean().backward()
        optimizer.step()
worst = max((a - b).abs().max().item() for a, b in zip(model.parameters(), alone.parameters()))
assert worst < 1e-4, worst
dist.barrier()
if rank == 0:
    print(f"DDP on {size} ranks ({device.type}): largest difference from training alone {worst:.1e}")
dist.destroy_process_group()
