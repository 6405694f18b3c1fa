"""The entry point by which torch finds the backend without an import: called at the end of `import torch`, which must go well
whatever is wrong with us. It is part of the package even where the backend is not."""

from __future__ import annotations

import importlib.util
import warnings

REMEDY = (
    "fabring was installed without its PyTorch backend: it was built where there was no torch, as pip does unless told otherwise. "
    "At the root of its repository: pip install scikit-build-core nanobind, then pip install --no-build-isolation "
    "--force-reinstall --no-deps ."
)


def register() -> None:
    if importlib.util.find_spec("fabring.torch") is None:
        _refuse_when_used()
        return
    try:
        import fabring.torch  # noqa: F401
    except ImportError as missing:  # torch must stay usable without us
        warnings.warn(f"the backend 'fabring' is not available: {missing}", stacklevel=2)


def _refuse_when_used() -> None:
    """Who has torch and fabring need not want them together: nothing is said before somebody asks for the backend."""
    import torch.distributed as dist

    def refuse(*_: object) -> None:
        raise ImportError(REMEDY)

    if dist.is_available() and "FABRING" not in dist.Backend._plugins:
        dist.Backend.register_backend("fabring", refuse, extended_api=True, devices=["cpu", "cuda"])
