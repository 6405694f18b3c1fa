"""Groups of a process group that is bound to its GPU (init_process_group(device_id=...)), as PyTorch's recipes make it: subsets of
which some ranks are no members, and the groups of a device mesh. Started by torchrun with 4 ranks."""
import os

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
torch.cuda.set_device(device)
dist.init_process_group("fabring", device_id=device)


def expect(group, members):
    x = torch.full((1000,), float(rank), device=device)
    dist.all_reduce(x, group=group)
    assert (x == sum(members)).all(), (rank, members, x[0])


expect(None, range(size))
for members in ([0, 1], [1, 2, 3], [size - 1]):
    group = dist.new_group(members)
    if rank in members:
        expect(group, members)
mesh = dist.device_mesh.init_device_mesh("cuda", (2, size // 2), mesh_dim_names=("replicate", "shard"))
row, column = rank // (size // 2), rank % (size // 2)
expect(mesh["shard"].get_group(), [row * (size // 2) + i for i in range(size // 2)])
expect(mesh["replicate"].get_group(), [i * (size // 2) + column for i in range(2)])
dist.barrier()
dist.destroy_process_group()
if rank == 0:
    print(f"groups bound to their GPU on {size} ranks: all right")
