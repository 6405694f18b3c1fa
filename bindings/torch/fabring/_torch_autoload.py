"""The entry point by which torch finds the backend without an import: called at the end of `import torch`."""

from __future__ import annotations

import warnings


def register() -> None:
    try:
        import fabring.torch  # noqa: F401
    except ImportError as missing:  # torch must stay usable without us
        warnings.warn(f"the backend 'fabring' is not available: {missing}", stacklevel=2)
