"""The copy of libfabring that the package runs on, which need not be its own. To be imported before what uses the library."""

from __future__ import annotations

import os
import pathlib

_REMEDY = ("one that the process had loaded before, or that is in LD_LIBRARY_PATH, goes before the package's own. Take it out of "
           "LD_LIBRARY_PATH, link the program to the newer one, or import fabring first")


def _number(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _foreign() -> str:
    """Where the library is that was found before the package's own: only what was there before the failed import is still loaded."""
    loaded = [line.split(maxsplit=5)[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines()]
    found = [path for path in loaded if os.path.basename(path).startswith("libfabring.so")]
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        found += map(str, sorted(pathlib.Path(folder).glob("libfabring.so.*")))
    return f" from {found[0]}" if found else ""


def _check() -> None:
    try:
        from fabring import _core
    except ImportError as error:  # the loader wants all functions that the package uses
        _, lacks, function = str(error).partition("undefined symbol: fabring_")
        if not lacks:
            raise
        raise ImportError(f"fabring got an older library, a libfabring without fabring_{function}{_foreign()}: {_REMEDY}") from error
    if _number(_core.version) < _number(_core.built_with):
        raise ImportError(
            f"fabring {_core.built_with} got an older library, libfabring {_core.version} from {_core.library_file}: {_REMEDY}")


_check()
