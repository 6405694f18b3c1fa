"""Ctrl-C while waiting for a rank that does not come: KeyboardInterrupt at once, other threads run meanwhile, and
a clean end. Rank 0 sends itself the signal when its other thread has seen it wait."""

import os
import signal
import threading
import time

import numpy as np

import fabring

world = fabring.init()
if world.rank == 1:
    try:
        world.recv(np.empty(1), 0, tag=1)  # never sent: ends when rank 0 leaves
    except fabring.Error as error:
        print(f"rank 1: {error.code}", flush=True)
    raise SystemExit(0)

ticks, sent_at = 0, 0.0


def tick():
    global ticks, sent_at
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        ticks += 1
        time.sleep(0.001)  # the interpreter is free to run this: that is the experiment
    sent_at = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)


thread = threading.Thread(target=tick)
thread.start()
try:
    world.recv(np.empty(1), 1)
    raise SystemExit("came back")
except KeyboardInterrupt:
    noticed_after_s = time.monotonic() - sent_at
thread.join()
assert ticks > 20, ticks
assert noticed_after_s < 5, noticed_after_s  # within 0.1 s where the machine has time for us
work = world.start.recv(np.empty(1), 1)
try:
    work.wait(0.05)
    raise SystemExit("came back")
except TimeoutError as error:
    assert "0.05 s" in str(error)
assert not work.done()
print("rank 0: interrupted", flush=True)
