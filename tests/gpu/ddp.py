"""DDP and plain collectives on CUDA tensors; every rank may share one GPU. Run by torchrun, from run.sh."""
import os

import torch
import torch.distributed as dist
import fabring.torch  # noqa: F401

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", rank % torch.cuda.device_count())
torch.cuda.set_device(device)
dist.init_process_group("fabring")

# On a side stream, behind slow work: ordered, or wrong.
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    x = torch.zeros(1 << 20, device=device)
    torch.cuda._sleep(50_000_000)
    x += rank + 1
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    y = x * 2
stream.synchronize()
assert torch.all(y == size * (size + 1)), y[:4]

# Tensors that are not contiguous, and a future's callback.
z = torch.arange(64, device=device, dtype=torch.bfloat16).view(8, 8).t()
dist.broadcast(z, 0)
future = dist.all_reduce(torch.ones(5, device=device), async_op=True).get_future()
assert torch.equal(future.then(lambda f: f.value()[0] + 1).wait().cpu(), torch.full((5,), float(size + 1)))
parts = [torch.empty(3, device=device) for _ in range(size)]
dist.all_gather(parts, torch.full((3,), float(rank), device=device))
assert [int(p[0]) for p in parts] == list(range(size))

# DDP against the same training in one process.
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
alone = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
alone.load_state_dict(model.state_dict())
ddp = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
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
    print(f"DDP on {size} ranks: largest difference from training alone {worst:.1e}")
dist.destroy_process_group()
