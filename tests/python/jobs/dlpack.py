"""Torch tensors, and arrays that only speak DLPack. A rank without torch checks the second only."""

import ctypes
import weakref

import numpy as np

import fabring


class Foreign:
    """An array of a library nobody knows: DLPack is all it has."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **wishes):
        return self.array.__dlpack__(**wishes)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Lazy:
    """Makes what it exports when it is asked, and lends each export until it is given back."""

    def __init__(self, array):
        self.array, self.lent = array, []

    def __dlpack__(self, **wishes):
        made = self.array.copy()
        self.lent.append(weakref.ref(made))
        return made.__dlpack__(**wishes)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Vectors(Foreign):
    """Gives its float64 away as vectors of two float32, which are as long."""

    def __dlpack__(self, **wishes):
        capsule = self.array.__dlpack__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = pointer_of(capsule, b"dltensor")  # address, device (2 x 4 bytes), dimensions (4), code, bits, lanes (2)
        ctypes.c_uint8.from_address(tensor + 21).value = 32
        ctypes.c_uint16.from_address(tensor + 22).value = 2
        return capsule


world = fabring.init()
r, n = world.rank, world.size
x = np.full(6, r + 1, np.float32)
assert (world.allreduce(Foreign(x)) == n * (n + 1) / 2).all()
y = np.empty(6, np.float32)
world.allreduce(Foreign(x), out=Foreign(y))
assert (y == n * (n + 1) / 2).all()
lazy, lazy_out = Lazy(x), Lazy(x)
if r == 0:  # not over before all have begun
    work = world.start.allreduce(lazy, out=lazy_out)
    assert [len(one.lent) for one in (lazy, lazy_out)] == [1, 1], "what is used is what was asked"
    lent = lazy.lent[0](), lazy_out.lent[0]()
    assert lent[0] is not None and lent[1] is not None, "given back before the operation is over"
    if n > 1:
        world.send(x, 1, tag=5)
    work.wait()
    assert (lent[1] == n * (n + 1) / 2).all()
else:
    if r == 1:
        world.recv(np.empty(6, np.float32), 0, tag=5)
    world.allreduce(x)
try:
    world.allreduce(Foreign(np.ones((4, 4))[:, :2]))
    raise SystemExit("a strided array was taken")
except fabring.InvalidArgumentError as error:
    assert "(4, 2)" in str(error), error
for call in (lambda: world.allreduce(Vectors(np.ones(4))), lambda: world.allreduce(np.ones(4), out=Vectors(np.ones(4)))):
    try:
        call()
        raise SystemExit("vectors were taken for wider numbers")
    except fabring.UnsupportedError as error:
        assert "vectors of 2 float32" in str(error), error
locked = np.zeros(6, np.float32)
locked.flags.writeable = False
assert (world.allreduce(Foreign(locked)) == 0).all()
for call in (lambda: world.allreduce(Foreign(x), out=Foreign(locked)), lambda: world.recv(Foreign(locked), 0)):
    try:
        call()
        raise SystemExit("a read-only array was written to")
    except fabring.InvalidArgumentError as error:
        assert "read-only" in str(error), error
try:
    import torch
    from torch._subclasses import FakeTensorMode
except ImportError:
    print(f"rank {r}: foreign ok, no torch")
    raise SystemExit(0)

for type in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
    t = torch.full((2, 3), r + 1).to(type)
    got = world.allreduce(t)
    assert isinstance(got, torch.Tensor) and got.dtype == type and got.shape == (2, 3)
    assert (got == n * (n + 1) // 2).all()
leaf = torch.ones(4, requires_grad=True)
assert world.allreduce(leaf.grad_fn or leaf.detach(), out=torch.empty(4)).sum() == 4 * n
assert (world.all_gather(torch.tensor([r])).flatten() == torch.arange(n)).all()
assert world.allreduce(torch.tensor([True, r == 0]), op="logical_and").tolist() == [True, n == 1]
with FakeTensorMode():
    pretended = torch.ones(2)
for bad, word in ((torch.ones(4, 4).t(), "contiguous()"), (torch.ones(2, dtype=torch.complex64), "complex64"),
                  (torch.ones(2, device="meta"), "with data"), (torch._neg_view(torch.ones(2)), "resolve_neg()"),
                  (torch.eye(2).to_sparse(), "to_dense()"), (torch.eye(2).to_sparse_csr(), "to_dense()"),
                  (torch.eye(2).to_mkldnn(), "to_dense()"), (torch.nested.nested_tensor([torch.ones(2)]), "unbind()"),
                  (torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "qint8"),
                  (torch._efficientzerotensor(2), "no memory of its own"), (pretended, "FakeTensor, has no memory of its own")):
    for name, call in (("x", lambda: world.allreduce(bad)), ("out", lambda: world.allreduce(torch.ones(4), out=bad))):
        try:
            call()
            raise SystemExit(f"{word} was taken")
        except (fabring.InvalidArgumentError, fabring.UnsupportedError) as error:
            assert word in str(error) and str(error).startswith(name), error
for derived in (torch.vmap, lambda f: torch.func.grad(lambda t: f(t).sum())):
    try:
        derived(world.allreduce)(torch.ones(2, 3))
        raise SystemExit("a stand-in of torch.func was taken")
    except fabring.UnsupportedError as error:
        assert "x, a Tensor, has no memory of its own" in str(error), error
try:
    import ml_dtypes
except ImportError:
    pass
else:
    got = world.allreduce(Foreign(torch.full((3,), 0.5).to(torch.float8_e4m3fn)))
    assert got.dtype == ml_dtypes.float8_e4m3fn and (got.astype(np.float32) == 0.5 * n).all(), got
print(f"rank {r}: foreign and torch ok")
