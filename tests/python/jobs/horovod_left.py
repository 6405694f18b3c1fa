"""Rank 1 shuts down, or removes a process set of ranks 0 and 1, in the middle of the round that would begin a sum: rank 0 hears of
it, and gets no sum that lacks rank 1."""

import sys
import threading
import time

import fabring.horovod as hvd
import torch

torch.set_num_threads(1)
hvd.init()
way = sys.argv[1]
chosen = hvd.add_process_set([0, 1]) if way == "remove" else hvd.global_process_set
if hvd.rank() == 1:
    negotiation = chosen.negotiation()
    begin, agreed = negotiation._begin_what_is_ready, threading.Event()

    def begin_when_it_has_ended():
        if any(len(ranks) == negotiation.size for ranks in negotiation._table.values()):
            agreed.set()
            while negotiation._ended is None:
                time.sleep(0.001)
        begin()

    negotiation._begin_what_is_ready = begin_when_it_has_ended
if not chosen.included():
    sys.exit()
handle = hvd.allreduce_async(torch.ones(3), name="sum", op=hvd.Sum, process_set=chosen)
if hvd.rank() == 1:
    assert agreed.wait(60)
    if way == "remove":
        hvd.remove_process_set(chosen)
    else:
        hvd.shutdown()
try:
    print(f"rank {hvd.rank()}: got {hvd.synchronize(handle).tolist()}", flush=True)
except hvd.HorovodInternalError as error:
    print(f"heard: {error}", flush=True)
