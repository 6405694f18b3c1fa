"""Rank 0's GPU has no room to send small tensors together: a wall of our own, as there is none here. Every rank hears why."""

import threading

import fabring
import fabring.horovod as hvd
import horovod_device
import torch

horovod_device.CHOSEN = "packed"
horovod_device.choose()
hvd.init()
empty = torch.empty


def full(*sizes, **options):
    if threading.current_thread().name == "fabring-hvd":
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")
    return empty(*sizes, **options)


if hvd.rank() == 0:
    torch.empty = full
try:
    hvd.grouped_allreduce([torch.ones(10), torch.ones(5)], name="together")
except hvd.HorovodInternalError as error:
    assert isinstance(error, fabring.OutOfMemoryError if hvd.rank() == 0 else fabring.AbortedError), error
    assert "needs room on the GPU" in str(error) and "CUDA out of memory" in str(error), error
    print("heard", flush=True)
