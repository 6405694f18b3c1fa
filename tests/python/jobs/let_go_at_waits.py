"""What a dropped Work keeps goes once it is over, also where nothing more is started: at a wait, and at a question."""

import weakref

import numpy as np

import fabring

world = fabring.init()


def drop(tag):
    array = np.zeros(1000)
    world.start.recv(array, 1, tag=tag)
    return weakref.ref(array)


token = np.zeros(1)
for asks in False, True:  # the other one sends only when nothing more is to be started here
    if world.rank == 0:
        dropped = drop(0)
        later = world.start.recv(token, 1, tag=1)
        world.send(token, 1, tag=2)
        if not asks:
            later.wait()
        while asks and not later.done():
            pass
        assert dropped() is None, asks
    else:
        world.recv(token, 0, tag=2)
        world.send(np.zeros(1000), 0, tag=0)
        world.send(token, 0, tag=1)
print(f"rank {world.rank}: let go", flush=True)
