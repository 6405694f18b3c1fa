"""An engine that is closed while another thread is in empty(), which lets others run as it makes its pages: close() waits for
it, and what it made can be written to. Alone, again and again."""

import threading

import fabring

ROUNDS, SIZE = 50, 16 << 20


def make(engine):
    try:
        while True:
            begun.set()
            engine.empty(SIZE, "uint8")[::4096] = 1
    except fabring.InvalidArgumentError:  # it has been closed
        pass


for _ in range(ROUNDS):
    engine = fabring.Engine({"FABRING_RANK": 0, "FABRING_WORLD_SIZE": 1})
    begun = threading.Event()
    thread = threading.Thread(target=make, args=(engine,))
    thread.start()
    begun.wait()
    engine.close()
    thread.join()
print("closed in use", flush=True)
