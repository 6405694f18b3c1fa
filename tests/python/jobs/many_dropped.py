"""Works that were dropped and are not over cost later starts nothing: begun one after the other, four times as many take four
times as long, not sixteen. By the processor time of this thread, as the machine may have others to run."""

import time

import numpy as np

import fabring

world = fabring.init()
token = np.zeros(1)


def begin(number):
    began = time.thread_time()
    for tag in range(number):
        world.start.recv(token, 1, tag=tag)
    took = time.thread_time() - began
    world.send(token, 1, tag=number)  # only now the other one sends
    return took


def serve(number):
    world.recv(token, 0, tag=number)
    for tag in range(number):
        world.send(token, 0, tag=tag)


FEW, TIMES = 1000, 4
COUNTS = FEW, FEW, FEW * TIMES  # the first makes what the others find made
if world.rank == 0:
    took = []
    for number in COUNTS:
        took.append(begin(number))
        world.barrier()
    assert took[2] < 2 * TIMES * took[1], took
else:
    for number in COUNTS:
        serve(number)
        world.barrier()
print(f"rank {world.rank}: dropped", flush=True)
