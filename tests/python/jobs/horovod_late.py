"""Rank 1 comes late. `late`: much later than FABRING_TIMEOUT, and all go on. `never`, `other name`: it does not call what rank 0
waits for, and HOROVOD_STALL_SHUTDOWN_TIME_SECONDS ends the wait."""

import sys
import time

import fabring
import fabring.horovod as hvd
import torch

hvd.init()
r = hvd.rank()
if sys.argv[1] == "late":
    if r == 1:
        time.sleep(2.5 * float(fabring.engine().setting("FABRING_TIMEOUT").removesuffix("s")))
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2
else:
    if (r, sys.argv[1]) == (1, "never"):
        fabring.world().barrier()
    try:
        hvd.allreduce(torch.ones(1), name=f"of rank {r}")
        raise SystemExit("not ended")
    except hvd.HorovodInternalError as error:
        assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS (1) is over" in str(error), error
        assert r == 1 or isinstance(error, fabring.TimeoutError) or sys.argv[1] == "other name", error
    if (r, sys.argv[1]) == (0, "never"):
        fabring.world().barrier()
print(f"rank {r}: so it should be", flush=True)
