"""monitored_barrier for groups of this backend: torch.distributed's own turns down every backend that is not Gloo."""

from __future__ import annotations

import datetime
import functools

import torch.distributed as dist
from torch.distributed import distributed_c10d as _c10d

from .wrapped import ours_in

_theirs = _c10d.monitored_barrier


@functools.wraps(_theirs)
def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    ours = None if _c10d._rank_not_in_group(group) else ours_in(group or _c10d._get_default_group())
    if ours is None:
        return _theirs(group, timeout, wait_all_ranks)
    if timeout is None:
        return ours.monitored_barrier(wait_all_ranks=wait_all_ranks)  # the timeout of the group
    if isinstance(timeout, float):
        timeout = datetime.timedelta(seconds=timeout)
    _c10d._check_valid_timeout(timeout)
    return ours.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


# A script that calls torch.distributed.monitored_barrier needs no change.
_c10d.monitored_barrier = monitored_barrier
dist.monitored_barrier = monitored_barrier
