"""An engine of init() that the program closes itself: init() meets the others anew."""

import numpy as np

import fabring

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
    for call in (fabring.engine, fabring.world, lambda: fabring.empty(3)):
        try:
            call()
            raise SystemExit("not refused")
        except fabring.InvalidArgumentError as error:
            assert "fabring.init() first" in str(error), error
print("met anew", flush=True)
