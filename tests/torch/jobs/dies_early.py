"""A worker of which one ends in its first life where the others wait for it: torchrun starts all again, on the same store.

    dies_early.py FOLDER VICTIM BEFORE    # BEFORE: init or group"""

import os
import pathlib
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import fabring.torch  # noqa: F401

folder, victim, before = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"


def end_when_the_others_wait():
    """What they put into the store by then is there when all come again; some that wait put nothing there."""
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, wait_for_workers=False)
    keys = store.num_keys()
    (folder / "watched").touch()
    while len(list(folder.iterdir())) < size:
        time.sleep(0.01)
    deadline = time.monotonic() + 2
    while store.num_keys() < keys + 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    os._exit(1)


def come_to(where):
    if not first_life or where != before:
        return
    if rank == victim:
        end_when_the_others_wait()
    while not (folder / "watched").exists():
        time.sleep(0.01)
    (folder / str(rank)).touch()


come_to("init")
dist.init_process_group("fabring", timeout=timedelta(minutes=10))
members = [1, 0, 2]  # 1 is rank 0 of the group
first = dist.new_group([0, 1, 2])
come_to("group")
group = dist.new_group(members)
total = torch.tensor([rank + 1])
dist.all_reduce(total, group=group)
dist.all_reduce(total, group=first)
if rank == 0:
    print("sum of the second life:", total.item(), flush=True)
dist.destroy_process_group()
