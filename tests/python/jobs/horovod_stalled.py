"""Rank 0 calls 'first', the others 'second': after a while rank 0 is told who has not called. Rank 0's threshold counts."""

import os
import sys
import threading

import fabring.horovod as hvd
import torch

if os.environ["FABRING_RANK"] != "0":
    os.environ["HOROVOD_FUSION_THRESHOLD"] = "16"
hvd.init()
told = threading.Event()
say = sys.stderr.write


class Watched:
    """stderr, and an event when the complaint is there."""

    def write(self, text):
        if "has waited" in text:
            told.set()
        return say(text)

    def flush(self):
        pass


sys.stderr = Watched()
names = ["first", "second"] if hvd.rank() == 0 else ["second", "first"]
handle = hvd.allreduce_async(torch.ones(1), name=names[0])
if hvd.rank() == 0:
    assert told.wait(60)
else:  # which rank is told first is left to chance, and what rank 0 does then ends what the others would be told of
    assert hvd.synchronize(handle).eq(1).all()
other = hvd.allreduce_async(torch.ones(1), name=names[1])
many = [hvd.allreduce_async(torch.ones(5), name=f"{i}") for i in range(50)]
assert all(hvd.synchronize(one).eq(1).all() for one in [*([handle] if hvd.rank() == 0 else []), other, *many])
print(f"rank {hvd.rank()}: went on", flush=True)
