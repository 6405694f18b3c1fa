"""The entry point by which torch finds the backend without an import: called at the end of `import torch`, which must go well
whatever is wrong with us. A module beside the package, because the package may be what cannot be loaded. It is installed even
where the backend is not."""

from __future__ import annotations

import sys
import warnings

NOT_BUILT = (
    "fabring was installed without its PyTorch backend: it was built where there was no torch, as pip does unless told otherwise. "
    "At the root of its repository: pip install scikit-build-core nanobind, then pip install --no-build-isolation "
    "--force-reinstall --no-deps ."
)


def register() -> None:
    try:
        import fabring.torch  # noqa: F401
    except Exception as failed:  # torch must stay usable without us
        if isinstance(failed, ModuleNotFoundError) and failed.name == "fabring.torch":
            _refuse_when_used(NOT_BUILT)  # who has torch and fabring need not want them together: nothing is said before
            return
        reason = f"the backend 'fabring' is not available: {type(failed).__name__}: {failed}"
        _refuse_when_used(reason)
        try:
            warnings.warn(reason, stacklevel=2)
        except Warning:  # as python -W error has it; said all the same
            print(f"warning: {reason}", file=sys.stderr)


def _refuse_when_used(reason: str) -> None:
    """Who asks for the backend hears why there is none."""
    import torch.distributed as dist

    def refuse(*_: object) -> None:
        raise ImportError(reason)

    if dist.is_available() and "FABRING" not in dist.Backend._plugins:
        dist.Backend.register_backend("fabring", refuse, extended_api=True, devices=["cpu", "cuda"])
