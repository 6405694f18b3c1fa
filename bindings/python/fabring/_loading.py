"""Loads fabring._core without losing Python's signal handlers. Debian's libfabric brings libinfinipath, whose constructor
replaces the handlers of SIGINT and others unless this variable is set: Ctrl-C would end the process instead of raising
KeyboardInterrupt."""

import os

_NAME = "IPATH_NO_BACKTRACE"
_given = _NAME in os.environ
os.environ.setdefault(_NAME, "1")
try:
    from fabring import _core  # noqa: F401
finally:
    if not _given:
        del os.environ[_NAME]
