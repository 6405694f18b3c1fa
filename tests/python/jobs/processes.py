"""Ranks that are processes of multiprocessing. Rank 1 ends, by a return or an exception, while the others wait for it: they hear that
it left or what ended it, not that it died. argv: start method, end (return, raise, exit, or horovod: a return there too)."""

import multiprocessing
import sys

import numpy as np

import fabring


def rank(end):
    if end == "horovod":
        import fabring.horovod as hvd

        hvd.init()
    world = fabring.init()
    ready = np.zeros(1)
    if world.rank == 1:
        for other in (0, 2):
            world.recv(ready, other)
        if end == "raise":
            raise RuntimeError("no such file: data.npy")
        if end == "exit":
            sys.exit(3)
        return
    try:
        world.send(ready, 1)
        world.allreduce(np.ones(10))
    except (fabring.AbortedError, fabring.PeerLostError) as error:
        print(f"rank {world.rank}: {error}", flush=True)


if __name__ == "__main__":
    try:
        raise ValueError("handled, and no business of the child's, which begins here")
    except ValueError:
        child = multiprocessing.get_context(sys.argv[1]).Process(target=rank, args=(sys.argv[2],))
        child.start()
    child.join()
    print(f"exit code {child.exitcode}", flush=True)
