"""What PyTorch puts around a backend: with TORCH_DISTRIBUTED_DEBUG=DETAIL a group has one that compares every call first."""

from __future__ import annotations


def backend_of(group, device):
    """The backend itself."""
    backend = group._get_backend(device)
    while (inner := getattr(backend, "wrapped_pg", None)) is not None:
        backend = inner
    return backend
