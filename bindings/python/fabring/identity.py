"""Which rank of which job a process says it is: in a child of fork() that says what its parent said, it is no rank."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_ours = ("FABRING_RANK", "FABRING_WORLD_SIZE", "FABRING_JOB_ID", "FABRING_MASTER_ADDR", "FABRING_MASTER_PORT")
# By what each is known, in this order, and what else tells its ranks or jobs apart. The first is as known_by in
# runtime/bootstrap/launchers.cpp, to which tests/runtime/bootstrap/launchers_test.cpp holds it.
_launchers = (
    (("RANK", "WORLD_SIZE", "MASTER_ADDR"), ("MASTER_PORT",)),
    (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_NAMESPACE",)),
    (("PMI_RANK",), ("PMI_SIZE", "SLURM_STEP_ID")),
    (("PMI_ID",), ()),
    (("PMIX_RANK",), ("PMIX_NAMESPACE", "SLURM_STEP_ID")),
    (("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"), ()),
    (("SLURM_JOB_ID",), ()),
    (("JOB_COMPLETION_INDEX",), ()),
    (("SM_HOSTS", "SM_CURRENT_HOST"), ()),
    (("RANK", "WORLD_SIZE"), ()),
    (("RANK", "MASTER_ADDR"), ()),
)


def _by_our_names(settings: Mapping[str, Any] | None, environment: bool) -> dict[str, str]:
    told = {name: os.environ[name] for name in _ours if environment and os.environ.get(name)}
    return told | {name: str(value) for name, value in (settings or {}).items() if name in _ours}


def of_process(settings: Mapping[str, Any] | None, environment: bool) -> dict[str, str]:
    """As Engine takes settings and environment: by our names, and where these leave it open by those of the launcher that counts."""
    told = _by_our_names(settings, environment)
    if not environment or {"FABRING_RANK", "FABRING_WORLD_SIZE"} <= told.keys():
        return told
    for known_by, besides in _launchers:
        if all(os.environ.get(name) for name in known_by):
            return told | {name: os.environ[name] for name in known_by + besides if os.environ.get(name)}
    return told


def is_still(parents: Mapping[str, str], settings: Mapping[str, Any] | None, environment: bool) -> bool:
    """Whether this process says that it is who its parent was by of_process(). What other launchers' names have come to say
    since does not count: programs set RANK or MASTER_PORT for libraries of theirs."""
    if _by_our_names(settings, environment) != {name: parents[name] for name in _ours if name in parents}:
        return False
    return all(environment and os.environ.get(name) == value for name, value in parents.items() if name not in _ours)
