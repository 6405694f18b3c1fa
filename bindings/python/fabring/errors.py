"""What goes wrong, as exceptions: one class for each code of docs/errors.md, each also the built-in exception that people
already catch where there is one (a lost rank is a ConnectionError, a bad argument a ValueError)."""

from __future__ import annotations

import builtins


class Error(RuntimeError):
    """Base of all. Fields that are not known keep their default.

    code        "peer_lost", "mismatch", ... (docs/errors.md)
    rank        the rank at fault, not the one that reports, by its number in the job (Communicator.members); -1: not known
    host        its host
    collective  "allreduce"; of what makes a communicator its name, "duplicate"
    sequence    number of the operation on its communicator, from 1; 0: not known. Split and the like count as several
    bytes       size of the operation
    """

    code = "internal"

    def __init__(self, message: str, rank: int = -1, host: str = "", collective: str = "", sequence: int = 0,
                 bytes: int = 0) -> None:
        super().__init__(message)
        self.rank = rank
        self.host = host
        self.collective = collective
        self.sequence = sequence
        self.bytes = bytes

    def __reduce__(self) -> tuple:
        told = (str(self), self.rank, self.host, self.collective, self.sequence, self.bytes)
        return type(self), told


class InvalidArgumentError(Error, ValueError):
    """The call or a setting is wrong; fix it. The communicator stays usable."""

    code = "invalid_argument"


class MismatchError(Error):
    """Ranks called different things; the text has both sides."""

    code = "mismatch"


class UnsupportedError(Error, NotImplementedError):
    """Not possible here; choose another type, transport or algorithm. The communicator stays usable."""

    code = "unsupported"


class UnavailableError(Error, OSError):
    """A port, name, provider or interface is missing or in use; the text names it."""

    code = "unavailable"

    def __str__(self) -> str:  # OSError's would print a tuple
        return str(self.args[0])


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline passed; the text says which ranks were waited for."""

    code = "timeout"

    def __str__(self) -> str:
        return str(self.args[0])


class PeerLostError(Error, ConnectionError):
    """A rank died, left, or cannot be reached; `rank` and `host` say which."""

    code = "peer_lost"

    def __str__(self) -> str:
        return str(self.args[0])


class AbortedError(Error):
    """abort() was called, here or on another rank, or the engine was closed."""

    code = "aborted"


class OutOfMemoryError(Error, MemoryError):
    """The scratch budget or the machine is exhausted."""

    code = "out_of_memory"


class TransportError(Error):
    """The fabric failed in a way that names no dead rank, or a peer broke the protocol."""

    code = "transport_error"


class InternalError(Error):
    """A bug of ours; please report it with the text."""

    code = "internal"


class DeviceError(Error):
    """A GPU failed, or its memory is not what it should be."""

    code = "device_error"


_BY_CODE = {kind.code: kind for kind in (InvalidArgumentError, MismatchError, UnsupportedError, UnavailableError,
                                         TimeoutError, PeerLostError, AbortedError, OutOfMemoryError, TransportError,
                                         InternalError, DeviceError)}


def make(code: str, message: str, rank: int, host: str, collective: str, sequence: int, bytes: int) -> Error:
    """The exception for a code; the module fabring._core calls this."""
    return _BY_CODE.get(code, InternalError)(message, rank, host, collective, sequence, bytes)
