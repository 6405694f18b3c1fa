"""Where the tensors of a job for fabring.horovod are, by its first argument: on `cpu`, the default, on `cuda`, or `packed`: in
memory of the host, but sent as those of a GPU are, as far as that is this package's."""

import sys

import torch

CHOSEN = sys.argv[1] if len(sys.argv) > 1 else "cpu"


def choose():
    """For what the job makes from now on, in the thread that calls."""
    if CHOSEN == "cuda":
        import fabring.horovod as hvd

        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
        torch.set_default_device("cuda")
    elif CHOSEN == "packed":
        from fabring.horovod import handles

        handles.device_of = lambda tensors, what: "cuda" if tensors else ""
