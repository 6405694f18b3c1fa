"""The mean of every rank's gradients, computed while something else goes on.

    python -m fabring.run -n 4 allreduce.py
"""

import numpy

import fabring

world = fabring.init()
gradients = numpy.full(1_000_000, world.rank, numpy.float32)

work = world.start.allreduce(gradients, out=gradients, op="avg")
square = sum(i * i for i in range(1000))  # something else
work.wait()

print(f"rank {world.rank} of {world.size}: mean {gradients[0]}, which should be {(world.size - 1) / 2}")
