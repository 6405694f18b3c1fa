"""Calls that are wrong on this rank alone are refused here, in words, before anything is sent; the job goes on."""

import array

import numpy as np

import fabring

world = fabring.init()
r, n = world.rank, world.size
x = np.ones(4, np.float32)
locked = np.ones(4, np.float32)
locked.flags.writeable = False


def refused(kind, words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} not in: {error}"
        return
    raise SystemExit(f"not refused: {call} {arguments} {named}")


bad = fabring.InvalidArgumentError
refused(bad, ["(5,)", "(4,)"], world.allreduce, x, out=np.ones(5, np.float32))
refused(bad, ["float64", "float32"], world.allreduce, x, out=np.ones(4))
refused(bad, ["read-only"], world.allreduce, x, out=locked)
refused(bad, ["ascontiguousarray"], world.allreduce, np.ones((4, 4))[:, 1])
refused(bad, ["out, of shape (4,)", "where the result is then"], world.allreduce, np.ones(4), out=np.ones((4, 4))[:, 1])
crooked = np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float32)
refused(bad, ["x does not begin", "4 bytes", "copy"], world.allreduce, crooked)
refused(bad, ["out does not begin", "4 bytes", "copy of it, where the result is then"], world.allreduce, x, out=crooked)
assert world.allreduce(crooked[:0]).shape == (0,)
refused(bad, ["'suum'", "sum, prod"], world.allreduce, x, op="suum")
refused(bad, ["['sum']", "sum, prod"], world.allreduce, x, op=["sum"])
refused(bad, ["int4", "bfloat16"], world.allreduce, x, wire_type="int4")
refused(bad, ["['bfloat16']", "bfloat16"], world.allreduce, x, wire_type=["bfloat16"])
refused(fabring.UnsupportedError, ["max", "bfloat16"], world.allreduce, x, op="max", wire_type="bfloat16")
for wrong in (0, -1.5, float("nan"), "3", [1]):
    refused(bad, [f"timeout={wrong!r} is no number of seconds above 0"], world.allreduce, x, timeout=wrong)
    refused(bad, [f"timeout={wrong!r}"], world.start.recv, x, timeout=wrong)
refused(bad, ["2 xs", "1 outs"], world.grouped_allreduce, [x, x], [x])
refused(bad, ["xs[1]", "float64"], world.grouped_allreduce, [x, np.ones(4)])
refused(TypeError, ["xs is a int", "list of arrays"], world.grouped_allreduce, 3)
refused(TypeError, ["outs is a float", "list of arrays"], world.grouped_allreduce, [x], 3.0)
for made in (world.grouped_allreduce(x for _ in range(2)),
             world.grouped_allreduce([x, x], (np.empty_like(x) for _ in range(2)))):
    assert len(made) == 2 and (made[1] == n).all()
refused(bad, ["root=9"], world.broadcast, x, root=9)
refused(bad, ["(5, 2)", f"{n}"], world.alltoall, np.ones((5, 2)))
refused(bad, ["counts", "[1]"], world.all_gather, x, counts=[1])
refused(bad, ["counts=4", "no list"], world.all_gather, x, counts=4)
refused(bad, ["adds up to"], world.reduce_scatter, x, counts=[1] * n)
refused(bad, ["out_counts"], world.alltoall, x, counts=[2] * n)
refused(bad, ["out_counts needs counts"], world.alltoall, x, out_counts=[2] * n)
refused(bad, ["tag=-3"], world.send, x, 0, tag=-3)
refused(bad, ["tag=1099511627776", "2147483647"], world.send, x, 0, tag=2**40)
refused(bad, ["tag=0.5", "whole"], world.recv, x, 0, tag=0.5)
refused(bad, ["root=1.0", "whole"], world.broadcast, x, root=1.0)
refused(bad, ["counts[0]=1.5", "whole"], world.all_gather, x, counts=[1.5] * n)
refused(bad, ["beyond"], world.allreduce, np.ones(2, np.int64), factor=2**65)
refused(bad, ["factor=9223372036854775808", "beyond", "int64"], world.allreduce, np.ones(2, np.int64), factor=2**63)
refused(bad, ["factor=18446744073709551616", "beyond", "uint64"], world.allreduce, np.ones(2, np.uint64), factor=2**64)
for huge in (10**400, -10**400, 10**5000):
    for kind in (np.float64, np.int64, np.uint64):
        refused(bad, ["factor=", "beyond", np.dtype(kind).name], world.allreduce, np.ones(2, kind), factor=huge)
refused(bad, ["nan", "whole"], world.allreduce, np.ones(2, np.int64), factor=float("nan"))
for none in ("0.5", b"2", [1], 1j):  # of these float() reads the first two
    for kind in (np.float32, np.int64):
        refused(bad, [repr(none), "no number"], world.allreduce, np.ones(2, kind), factor=none)
for shape in (-3, (2, -1), (2, 1.5), "ab"):
    refused(bad, [repr(shape), "whole numbers"], fabring.empty, shape)
refused(bad, ["no memory"], fabring.empty, (2**40, 2**40))
refused(bad, ["4611686018427387904", "float32", "no memory"], fabring.empty, 2**62)
refused(fabring.OutOfMemoryError, [], fabring.empty, 2**62 - 1)
assert fabring.empty(np.int64(3)).shape == (3,)
buffer = np.ones(8, np.float32)
refused(bad, ["overlap"], world.allreduce, buffer[:6], out=buffer[2:])


def exchange_in_place():
    with world.group() as group:
        group.recv(buffer, (r - 1) % n)
        group.send(buffer[2:4], (r + 1) % n)


refused(bad, ["operations 0 and 1 overlap", "recv(8 x float32", "send(2 x float32"], exchange_in_place)
refused(fabring.UnsupportedError, ["complex64", "float32"], world.allreduce, np.ones(2, np.complex64))
for wrong in (0.5, "1", 2**40, -2**31 - 1):
    refused(bad, [f"colour={wrong!r}"], world.split, wrong)
    refused(bad, [f"key={wrong!r}"], world.split, 0, wrong)
    refused(bad, [f"ranks[1]={wrong!r}"], world.subgroup, [r, wrong], 1)
for wrong in (0.5, "1", 2**40, -1):
    refused(bad, [f"number={wrong!r}"], world.subgroup, [r], wrong)
refused(bad, ["ranks is empty"], world.subgroup, [], 1)
for make in (world.duplicate, world.split_by_node, world.shrink):
    refused(bad, ["label=3 is no str"], make, 3)
refused(bad, ["plans is a list", "fabring plan --json"], world.with_plans, ["{}"])
assert world.split(np.int64(r), np.int8(1), "odd \udc80 name").label == "odd ? name"
try:
    import ml_dtypes

    refused(fabring.UnsupportedError, ["type float8_e4m3;", "float8_e4m3fn"], world.allreduce, np.ones(2, ml_dtypes.float8_e4m3))
    refused(fabring.UnsupportedError, ["float8_e4m3fnuz"], world.allreduce, np.ones(2, ml_dtypes.float8_e4m3fnuz))
except ImportError:
    pass
refused(fabring.UnsupportedError, ["masked", "filled"], world.allreduce, np.ma.masked_equal(np.arange(3), 1))
refused(fabring.UnsupportedError, ["byte order"], world.allreduce, np.ones(2, ">f4"))
refused(fabring.UnsupportedError, ["bitwise_and", "float32"], world.allreduce, x, op="bitwise_and")
refused(fabring.UnsupportedError, ["out has the byte order", "where the result is then"], world.allreduce, x,
        out=np.ones(4, ">f4"))
refused(bad, ["x is a number beyond 64 bits"], world.allreduce, 2**70)
refused(TypeError, ["x is a list", "asarray", "stack", "grouped_allreduce"], world.allreduce, [1, 2])
refused(TypeError, ["out is a list", "rows"], world.all_gather, x, out=[np.empty(4, np.float32)] * n)
for buffer in (memoryview(bytearray(4)), bytearray(4), array.array("f", [1.0])):
    refused(TypeError, [f"x is a {type(buffer).__name__}", "frombuffer"], world.allreduce, buffer)
    refused(TypeError, [f"out is a {type(buffer).__name__}", "frombuffer"], world.allreduce, np.ones(1, np.float32), out=buffer)
refused(TypeError, ["out is a float32", "numpy.empty()"], world.allreduce, np.float32(1), out=np.float32(1))
refused(TypeError, ["str"], world.broadcast, "abc")
refused(ValueError, ["too late"], fabring.init, {"FABRING_TIMEOUT": "3s"})
refused(bad, ["prepared"], world.prepare.send, x, (r + 1) % n)
assert (world.allreduce(x) == n).all()
fabring.shutdown()
refused(fabring.Error, [], world.allreduce, x)
print(f"rank {r}: refusals ok")
