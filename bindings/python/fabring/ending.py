"""How this process ends, for what is said to the other ranks when it does."""

from __future__ import annotations

import sys


def uncaught() -> str | None:
    """At exit: the exception that nobody caught and that ends this process, in a line; None where nothing did. SystemExit
    is a way to end, and a prompt shows exceptions and goes on."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None or hasattr(sys, "ps1") or sys.flags.interactive:
        return None
    return describe(error)


def of_block(error: BaseException | None) -> str | None:
    """Where an error leaves a block: what is said of it; None where there is nothing to say."""
    if not isinstance(error, SystemExit):
        return None if error is None else describe(error)
    if error.code is None or error.code == 0:
        return None
    status = error.code & 0xff if isinstance(error.code, int) else 1
    return f"its program ended with exit status {status}"


def describe(error: BaseException) -> str:
    """RuntimeError: what it says, its first line."""
    try:
        said = str(error).strip()
    except Exception:  # its own fault, and not ours to end by
        said = ""
    first = said.splitlines()[0][:200] if said else ""
    return f"its program ended by {type(error).__name__}" + (f": {first}" if first else "")
