"""Rank 1 is killed in the middle of training; the others' step() raises with its name and they end."""

import os
import signal

import fabring
import fabring.horovod as hvd
import torch

torch.set_num_threads(1)
hvd.init()
model = torch.nn.Linear(300, 300)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
try:
    for step in range(100_000):
        optimizer.zero_grad()
        model(torch.ones(2, 300)).sum().backward()
        if (hvd.rank(), step) == (1, 5):
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
except hvd.HorovodInternalError as error:
    assert isinstance(error, fabring.PeerLostError) and error.rank == 1, error
    print(f"rank {hvd.rank()}: named", flush=True)
