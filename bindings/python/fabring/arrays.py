"""Where an array's bytes are: NumPy arrays, torch tensors and whatever else speaks DLPack, checked before anything is sent.

Fabring takes memory of the host or of a CUDA GPU in one row-major piece. Torch is never imported here: if the caller has a
tensor, torch is there already.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy

from fabring import _core
from fabring.errors import InvalidArgumentError, UnsupportedError

# Our names and those of NumPy (ml_dtypes' among them) and torch, where they differ: float8_e4m3 is another type there, with
# infinities and other bits.
_THEIR_NAMES = {"float8_e4m3": "float8_e4m3fn"}
_TYPES_BY_THEIR_NAMES = {_THEIR_NAMES.get(name, name): name for name in _core.TYPES}
_KNOWN = ", ".join(_TYPES_BY_THEIR_NAMES)
# DLPack's (code, bits): 0 int, 1 unsigned, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2.
_DLPACK = {(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8", (1, 16): "uint16",
           (1, 32): "uint32", (1, 64): "uint64", (2, 16): "float16", (2, 32): "float32", (2, 64): "float64",
           (4, 16): "bfloat16", (6, 8): "bool", (10, 8): "float8_e4m3", (12, 8): "float8_e5m2"}
# DLPack's devices: 1 and 3 host, 2 CUDA, 13 managed.
_HOST, _CUDA = (1, 3), (2, 13)
_SIZES = {name: _core.size_of(number) for name, number in _core.TYPES.items()}
_numpy_types: dict[Any, str] = {}
_torch_types: dict[Any, str] = {}


class View(NamedTuple):
    """An array as Fabring sees it."""

    address: int
    shape: tuple[int, ...]
    type: str  # a name of _core.TYPES
    array: Any  # keeps the memory
    on_gpu: bool = False
    export: Any = None  # by DLPack the memory is ours as long as this
    device: int = 0  # of an export: the number of its GPU
    name: str = ""  # of the argument

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def view(array: Any, name: str, writable: bool) -> View:
    """The array's memory. `name` is the argument's, for errors. Raises UnsupportedError for memory of a device or a type
    that Fabring has not, InvalidArgumentError for strided, misaligned or read-only memory, TypeError for what is no array."""
    seen = _view(array, name, writable)
    if seen.address % 8 and seen.address % _SIZES[seen.type] and seen.elements:  # most begin at a multiple of all sizes
        raise InvalidArgumentError(f"{name} does not begin at a multiple of the {_SIZES[seen.type]} bytes of its elements; "
                                   + _instead("pass a copy of it", writable))
    return seen


def _view(array: Any, name: str, writable: bool) -> View:
    if isinstance(array, numpy.ma.MaskedArray):
        raise UnsupportedError(f"{name} is a masked array, whose mask would be ignored; pass {name}.filled(value) or {name}.data")
    if isinstance(array, numpy.ndarray):
        return _view_numpy(array, name, writable)
    if is_torch(array):
        return _view_torch(array, name, writable)
    if hasattr(array, "__dlpack__") and not isinstance(array, numpy.generic):
        return _view_dlpack(array, name, writable)
    if not writable and isinstance(array, (int, float, numpy.generic)):
        made = numpy.asarray(array)
        if made.dtype == object:
            raise InvalidArgumentError(f"{name} is a number beyond 64 bits")
        return _view_numpy(made, name, False)
    raise TypeError(f"{name} is a {type(array).__name__}: Fabring takes NumPy arrays, torch tensors and other arrays with "
                    "__dlpack__" + _how_to_make_one(array, writable))


def _how_to_make_one(array: Any, writable: bool) -> str:
    if isinstance(array, (list, tuple)):
        return ", one of them here; " + ("its rows are for what comes from several ranks" if writable else
                                         "numpy.asarray() makes one of numbers, numpy.stack() or torch.stack() of arrays; "
                                         "grouped_allreduce() takes several")
    try:
        memoryview(array)
    except TypeError:
        return "" if writable else "; numpy.asarray() makes one"
    return "; numpy.empty() makes one" if isinstance(array, numpy.generic) else "; numpy.frombuffer() makes one of its memory"


def several(arrays: Any, name: str) -> list[Any]:
    """What a list of arrays, or another iterable, has. Raises TypeError for what is none."""
    try:
        return list(arrays)
    except TypeError:
        raise TypeError(f"{name} is a {type(arrays).__name__}; it takes a list of arrays") from None


def _view_numpy(array: numpy.ndarray, name: str, writable: bool) -> View:
    kind = _numpy_types.get(array.dtype)
    if kind is None:
        kind = _TYPES_BY_THEIR_NAMES.get(array.dtype.name)
        if kind is None:
            raise UnsupportedError(f"{name} has the type {array.dtype}; Fabring has {_KNOWN}")
        if not array.dtype.isnative:
            raise UnsupportedError(f"{name} has the byte order of another machine ({array.dtype.str}); "
                                   + _instead("convert it with .astype(dtype.newbyteorder('='))", writable))
        _numpy_types[array.dtype] = kind
    if not array.flags.c_contiguous:
        raise _not_in_one_piece(name, array.shape, _instead("numpy.ascontiguousarray() copies it into one", writable))
    if writable and not array.flags.writeable:
        raise _read_only(name)
    return View(array.__array_interface__["data"][0], array.shape, kind, array)


def _view_torch(tensor: Any, name: str, writable: bool) -> View:
    kind = _torch_types.get(tensor.dtype)
    if kind is None:
        kind = _TYPES_BY_THEIR_NAMES.get(str(tensor.dtype).removeprefix("torch."))
        if kind is None:
            raise UnsupportedError(f"{name} has the type {tensor.dtype}; Fabring has {_KNOWN}")
        _torch_types[tensor.dtype] = kind
    if tensor.device.type not in ("cpu", "cuda"):
        remedy = "pass a tensor with data" if tensor.is_meta else _instead(f"pass {name}.cpu()", writable)
        raise UnsupportedError(f"{name} is on {tensor.device}; Fabring takes memory of the host or of a CUDA GPU: {remedy}")
    if tensor.device.type == "cuda":
        _check_takes_gpus(name, f"{name}.cpu()")
        if sys.modules["torch"].version.hip:
            raise UnsupportedError(f"{name} is on an AMD GPU; Fabring takes memory of the host or of a CUDA GPU: pass {name}.cpu()")
    if tensor.is_nested:
        raise UnsupportedError(f"{name} is a nested tensor; Fabring takes dense ones: pass each of {name}.unbind()")
    try:
        in_one_piece, address = tensor.is_contiguous(), tensor.data_ptr()
    except RuntimeError:
        raise _no_memory(tensor, name, writable) from None
    if not in_one_piece:
        raise _not_in_one_piece(name, tuple(tensor.shape), _instead(f"{name}.contiguous() copies it into one", writable))
    if tensor.is_neg():
        raise InvalidArgumentError(f"{name} is a view that stands for the negative of its memory; "
                                   + _instead(f"pass {name}.resolve_neg()", writable))
    if address == 0 and tensor.numel():
        raise _no_memory(tensor, name, writable)
    return View(address, tuple(tensor.shape), kind, tensor, tensor.device.type == "cuda", name=name)


def _no_memory(tensor: Any, name: str, writable: bool) -> UnsupportedError:
    if tensor.layout != sys.modules["torch"].strided:
        return UnsupportedError(f"{name} has the layout {tensor.layout}; Fabring takes dense tensors: "
                                + _instead(f"pass {name}.to_dense()", writable))
    return UnsupportedError(f"{name}, a {type(tensor).__name__}, has no memory of its own: it is a stand-in (torch.func, "
                            "FakeTensor, freed storage) or made of other tensors; pass one that has, or those that it is made "
                            f"of (DTensor: {name}.to_local())")


def _view_dlpack(array: Any, name: str, writable: bool) -> View:
    try:
        may_write, described = _export(array, writable)
        address, shape, code, bits, lanes, device, number, in_one_piece, export = described
    except TypeError as error:
        raise _nothing_given(array, name, error) from None
    if device not in _HOST + _CUDA:
        raise UnsupportedError(f"{name} is memory of a device (DLPack's number {device}); Fabring takes memory of the host "
                               "or of a CUDA GPU")
    if device in _CUDA:
        _check_takes_gpus(name, "a copy of it in memory of the host")
    if lanes != 1:
        raise UnsupportedError(f"{name} holds vectors of {lanes} {_DLPACK.get((code, bits), 'numbers')}; pass a view of it that "
                               "holds the numbers")
    if (code, bits) not in _DLPACK:
        raise UnsupportedError(f"{name} has DLPack's type ({code}, {bits} bits); Fabring has {_KNOWN}")
    if not in_one_piece:
        raise _not_in_one_piece(name, shape, _instead("copy it into a row-major one", writable))
    if writable and not may_write:
        raise _read_only(name)
    return View(address, shape, _DLPACK[code, bits], array, device in _CUDA, export, number, name)


def find_again(view: View) -> None:
    """Before each start of what was prepared: an array that gives its memory away once more has the default stream of its GPU
    wait for what its own stream was given since. Raises InvalidArgumentError if it has other memory by now."""
    if is_torch(view.array):
        address = view.array.data_ptr()
    elif view.on_gpu:
        try:
            address = _core.describe(view.array)[0]
        except TypeError as error:
            raise _nothing_given(view.array, view.name, error) from None
    else:
        return
    if address != view.address:
        raise InvalidArgumentError(f"{view.name} does not have the memory any more that it was prepared with; prepare it again")


def _nothing_given(array: Any, name: str, error: TypeError) -> TypeError:
    why: Any = error.__cause__ or error
    try:
        array.__dlpack__()  # what that raised is not in the error
    except Exception as raised:
        why = raised
    return TypeError(f"{name} is a {type(array).__name__} whose __dlpack__ did not give its memory away: {why}")


def _export(array: Any, writable: bool) -> tuple[bool, tuple]:
    """Whether it may be written to, if that was asked, and _core.describe's answer: of one export, as each may have memory of
    its own."""
    if writable:
        try:
            return True, _core.describe_writable(array)
        except TypeError:
            pass  # read-only, or it gives nothing away
    return False, _core.describe(array)


def _check_takes_gpus(name: str, remedy: str) -> None:
    if not _core.takes_gpu_memory:  # which would take it for the host's
        raise UnsupportedError(f"{name} is memory of a GPU, but this Fabring was built without CUDA (FABRING_WITH_CUDA=OFF): "
                               f"pass {remedy}")


def _instead(remedy: str, writable: bool) -> str:
    """What makes a copy is no remedy for who looks for the result in what was refused."""
    return f"{remedy}, where the result is then" if writable else remedy


def _read_only(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name} is read-only and the result is to go there")


def _not_in_one_piece(name: str, shape: tuple[int, ...], remedy: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name}, of shape {tuple(shape)}, does not lie in one row-major piece of memory; {remedy}")


def empty(like: View, shape: tuple[int, ...]) -> Any:
    """A new array of `like`'s kind and type."""
    if is_torch(like.array):
        return like.array.new_empty(shape)
    if isinstance(like.array, numpy.ndarray):
        return numpy.empty(shape, like.array.dtype)
    if like.on_gpu:
        raise InvalidArgumentError(f"pass out=: Fabring cannot make a new {type(like.array).__name__} on a GPU")
    theirs = _THEIR_NAMES.get(like.type, like.type)
    try:
        return numpy.empty(shape, theirs)
    except TypeError:
        raise InvalidArgumentError(f"pass out=: NumPy has no {theirs}, and Fabring cannot make a new "
                                   f"{type(like.array).__name__}") from None
