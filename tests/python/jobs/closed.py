"""An engine of init() that the program closes itself: init() meets the others anew, also in a child of fork(). So does
fabring.horovod's."""

import os

import numpy as np

import fabring

try:  # as it needs PyTorch
    import torch

    import fabring.horovod as hvd
except ModuleNotFoundError as missing:
    assert missing.name == "torch", missing
    hvd = None


def fork(child):
    """What all ranks' children do together."""
    number = os.fork()
    if number == 0:
        child()
        raise SystemExit(0)
    assert os.waitpid(number, 0)[1] == 0


def meet():
    """As the rank that the parent was, which has left the job."""
    assert not fabring.is_initialized()
    world = fabring.init()
    assert world.size == 2 and (world.allreduce(np.ones(3)) == 2).all()


def refused(*calls):
    for call in calls:
        try:
            call()
            raise SystemExit("not refused")
        except fabring.InvalidArgumentError as error:
            assert "init() first" in str(error), error


for way in ("close", "with", "shutdown"):
    world = fabring.init()
    assert fabring.is_initialized() and fabring.world() is world is fabring.init()
    assert (world.allreduce(np.ones(3)) == 2).all()
    engine = fabring.engine()
    if way == "close":
        engine.close()
    elif way == "with":
        with engine:
            pass
    else:
        fabring.shutdown()
    assert engine.closed and not fabring.is_initialized()
    refused(fabring.engine, fabring.world, lambda: fabring.empty(3))
    fork(meet)

if hvd is not None:
    def sum_of_ones():
        return hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist()

    for close in (lambda: fabring.engine().close(), fabring.shutdown):
        hvd.init(process_sets=[[0]])
        assert sum_of_ones() == [2, 2, 2]
        close()
        assert not hvd.is_initialized()
        refused(hvd.size, lambda: hvd.add_process_set([1]))
    hvd.init(process_sets=[[0]])  # the sets of before are gone
    assert sum_of_ones() == [2, 2, 2] and hvd.size() == 2
    fabring.engine().close()
    world = fabring.init()  # not of hvd.init()
    hvd.shutdown()
    assert (world.allreduce(np.ones(3)) == 2).all() and fabring.world() is world
    hvd.init()
    assert sum_of_ones() == [2, 2, 2] and fabring.world() is world
    hvd.shutdown()
    assert not fabring.is_initialized()
print("met anew", flush=True)
