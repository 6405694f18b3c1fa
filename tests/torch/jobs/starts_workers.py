"""A launcher that is not torchrun: starts two workers as DeepSpeed's and Lightning's do, by torchrun's names. It keeps the store
that they meet at, so that the port is its own."""

import os
import pathlib
import subprocess
import sys

import torch.distributed as dist

store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
workers = [subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("who.py")],
                            env={**os.environ, **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"})
           for rank in range(2)]
sys.exit(max(worker.wait() for worker in workers))
