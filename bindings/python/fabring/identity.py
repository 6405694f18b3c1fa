"""Which rank of which job a process says it is: in a child of fork() that says what its parent said, it is no rank."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_ours = ("FABRING_RANK", "FABRING_WORLD_SIZE", "FABRING_JOB_ID", "FABRING_MASTER_ADDR", "FABRING_MASTER_PORT")
_launchers = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
              "PMI_ID", "PMI_SIZE", "PMIX_RANK", "PMIX_NAMESPACE", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS")


def of_process(settings: Mapping[str, Any] | None, environment: bool) -> dict[str, str]:
    """As Engine takes settings and environment."""
    told = {name: os.environ[name] for name in _ours + _launchers if environment and name in os.environ}
    return told | {name: str(value) for name, value in (settings or {}).items() if name in _ours}
