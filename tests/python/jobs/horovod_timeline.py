"""Calls whose timeline the test reads: names that some ranks ask for later, fused and not, without names, one that fails, and a
process set."""

import sys

import fabring
import fabring.horovod as hvd
import numpy
import torch

torch.set_num_threads(1)
hvd.init()
r, n = hvd.rank(), hvd.size()
assert isinstance(hvd.cuda_built(), bool)
if len(sys.argv) > 1:  # otherwise the environment says where
    hvd.start_timeline(sys.argv[1])
for step in range(2):
    if r == n - 1:  # the one that the others wait for: it asks when they have
        for other in range(n - 1):
            fabring.world().recv(numpy.zeros(1), other)
    late = hvd.grouped_allreduce_async([torch.ones(3), torch.ones(4)], name="late", op=hvd.Sum)
    if r < n - 1:
        fabring.world().send(numpy.zeros(1), n - 1)
    hvd.synchronize(late)
    hvd.broadcast(torch.ones(5), 0, name="weights")
for _ in range(5):
    hvd.allreduce(torch.ones(1 << 20))
handles = [hvd.allreduce_async(torch.ones(10), name=f"small {i}") for i in range(4)]
for handle in handles:
    hvd.synchronize(handle)
try:
    hvd.allreduce(torch.ones(2 + r), name="shapes")
    raise SystemExit("not refused")
except hvd.HorovodInternalError:
    pass
mine = hvd.add_process_set([0, 1])
if mine.included():
    hvd.allreduce(torch.ones(1), name="in the set", process_set=mine)
if len(sys.argv) > 1:
    hvd.stop_timeline()
    hvd.allreduce(torch.ones(1), name="afterwards")
    if r == 0:
        hvd.start_timeline(sys.argv[1] + ".2")
        try:
            hvd.start_timeline(sys.argv[1] + ".3")
            raise SystemExit("not refused")
        except hvd.HorovodInternalError as error:
            assert "stop_timeline" in str(error)
        hvd.stop_timeline()
print("fine", flush=True)
