"""Several threads, a communicator for each."""

import threading

import numpy as np

import fabring

world = fabring.init()
comms = [world.duplicate(f"thread {i}") for i in range(4)]
wrong, finished = [], []


def work(comm, number):
    for step in range(50):
        got = comm.allreduce(np.full(2000, number + step + comm.rank, np.float64))
        if not (got == comm.size * (number + step) + comm.size * (comm.size - 1) / 2).all():
            wrong.append((number, step))
    finished.append(number)


threads = [threading.Thread(target=work, args=(comm, i)) for i, comm in enumerate(comms)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong and sorted(finished) == list(range(4)), (wrong, finished)  # one that raises only says so
print(f"rank {world.rank}: threads ok", flush=True)
