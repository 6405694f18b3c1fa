"""Says how many ranks have met, and each its number on its host."""

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

dist.init_process_group("fabring")
total = torch.ones(1)
dist.all_reduce(total)
if dist.get_rank() == 0:
    print(int(total), "ranks", flush=True)
local = fabring.torch._backend.setting(fabring.torch.backend_of(dist.group.WORLD, torch.device("cpu")), "FABRING_LOCAL_RANK")
print(f"rank {dist.get_rank()} is local rank {local}", flush=True)
dist.destroy_process_group()
