"""Fabring as a backend of torch.distributed: CPU and CUDA tensors, over shared memory, libfabric or TCP.

    import fabring.torch                                  # registers the backend
    torch.distributed.init_process_group("fabring")

Everything else is torch.distributed's: DDP, FSDP2, DTensor, torchrun. Settings (`fabring settings`) come from FABRING_*
in the environment; who a rank is comes from init_process_group. docs/pytorch.md has the rest.
"""

from __future__ import annotations

import atexit
import os

import torch

from fabring import ending

from . import _built_for


def _same_version(built: str, found: str) -> bool:
    return built.split("+")[0].split(".")[:2] == found.split("+")[0].split(".")[:2]


if not _same_version(_built_for.torch, torch.__version__):
    raise ImportError(
        f"fabring.torch was built for torch {_built_for.torch}, but this is torch {torch.__version__}; torch's C++ "
        "interface changes with every version. Build it again, at the root of its repository: pip install "
        "--no-build-isolation --force-reinstall --no-deps ."
    )

import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d as _c10d  # noqa: E402

from . import _backend  # noqa: E402
from . import timeouts  # noqa: E402, F401
from .barrier import monitored_barrier  # noqa: E402
from .shrinking import lost_rank, lost_ranks, numbered_as_at_the_start, shrink_group  # noqa: E402
from .wrapped import asked_of, backend_of  # noqa: E402, F401

__all__ = ["lost_rank", "lost_ranks", "monitored_barrier", "report", "shrink_group"]
__version__ = _backend.version()


def _create(options: "dist._DistributedBackendOptions", _unused: object = None) -> "dist.Backend":
    """Called by torch.distributed for every process group of this backend, on the ranks that are in it."""
    ending.call_in_process(_leave)
    store, ranks = numbered_as_at_the_start(options.store, list(options.global_ranks_in_group))
    return _backend.create(store, options.group_rank, options.group_size, options.timeout.total_seconds(), options.group_id,
                           ranks)


def report(group: "dist.ProcessGroup | None" = None) -> list[str]:
    """What was chosen for this group's engine and why, a line each: interface, transport, nodes, waiting.

    Errors: ValueError for a group of another backend.
    """
    return _backend.report(asked_of(group or _c10d._get_default_group())).split("\n")


def _register() -> None:
    if "FABRING" in dist.Backend._plugins:
        return
    # What asks a group for its devices takes "cuda" for where tensors can be.
    devices = ["cpu", "cuda"] if torch.backends.cuda.is_built() else ["cpu"]
    dist.Backend.register_backend("fabring", _create, extended_api=True, devices=devices)


def _named(prefix: str) -> str:
    return f"{os.environ.get(prefix + 'RANK')}/{os.environ.get(prefix + 'WORLD_SIZE')}"


def _take_launcher() -> None:
    """`fabring run` names ranks in its own words; env:// knows torchrun's. It removes those of a launcher around it and leaves a
    mark, who it named, so what there is of them then was set further in, by a torchrun or a program that starts its own workers,
    and counts. Not what this function has set in that rank itself: below it FABRING_RANK may have been set by hand again. Without
    the mark it was, and wins."""
    mark = os.environ.get("_FABRING_RUN")
    named_further_in = "TORCHELASTIC_RUN_ID" in os.environ or (
        mark is not None and not _named("") == mark != _named("FABRING_"))
    ours_win = {"FABRING_RANK", "FABRING_WORLD_SIZE"} <= os.environ.keys() and not named_further_in
    for theirs, ours in (
        ("RANK", "FABRING_RANK"),
        ("WORLD_SIZE", "FABRING_WORLD_SIZE"),
        ("LOCAL_RANK", "FABRING_LOCAL_RANK"),
        ("MASTER_ADDR", "FABRING_MASTER_ADDR"),
        ("MASTER_PORT", "FABRING_MASTER_PORT"),
    ):
        if ours in os.environ and (ours_win or theirs not in os.environ):
            os.environ[theirs] = os.environ[ours]


def _leave() -> None:
    """Before Python is taken apart: callbacks of futures still need it, and a rank that says goodbye is not taken for dead.
    Ranks that wait for one that failed hear why; else what others take part in comes to its end first."""
    reason = ending.uncaught()
    if reason:
        _backend.abort(reason)
    _backend.leave(let_end=not reason)


_take_launcher()
_register()
atexit.register(_leave)
