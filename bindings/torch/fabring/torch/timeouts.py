"""_set_pg_timeout for groups of this backend, by which trainers shorten the timeout after the first step: torch.distributed's own
knows NCCL and Gloo only."""

from __future__ import annotations

import functools

import torch.distributed as dist
from torch.distributed import distributed_c10d as _c10d

from .wrapped import backend_of

_theirs = _c10d._set_pg_timeout


@functools.wraps(_theirs)
def _set_pg_timeout(timeout, group=None):
    of = group or _c10d._get_default_group()
    if _c10d._rank_not_in_group(of):
        return _theirs(timeout, group)
    backends = {backend_of(of, device) for device in of._device_types}
    ours = {backend for backend in backends if backend.name() == "fabring"}
    for backend in ours:
        (getattr(backend, "set_timeout", None) or backend._set_default_timeout)(timeout)  # by torch's version
    if backends - ours or not ours:
        return _theirs(timeout, group)


_c10d._set_pg_timeout = _set_pg_timeout
if hasattr(dist, "_set_pg_timeout"):
    dist._set_pg_timeout = _set_pg_timeout
