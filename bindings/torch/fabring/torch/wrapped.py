"""What PyTorch puts around a backend: with TORCH_DISTRIBUTED_DEBUG=DETAIL a group has one that compares every call first."""

from __future__ import annotations


def backend_of(group, device):
    """The backend itself."""
    backend = group._get_backend(device)
    while (inner := getattr(backend, "wrapped_pg", None)) is not None:
        backend = inner
    return backend


def ours_in(group):
    """Our backend in a group, for whatever devices it is there; None if there is none."""
    backends = (backend_of(group, device) for device in group._device_types)
    return next((backend for backend in backends if backend.name() == "fabring"), None)


def asked_of(group):
    """What is asked about a group: our backend in it. ValueError if there is none."""
    if (ours := ours_in(group)) is None:
        names = ", ".join(sorted({backend_of(group, device).name() for device in group._device_types}))
        raise ValueError(f"this process group has the backend {names}, not fabring")
    return ours
