"""Engines made, used and given up again and again in the same processes: by leave(), by the destructor, by an abort in the
middle of an operation. All results are right, and nothing is left: no descriptor (a port is one), thread or mapping."""

from harness import Job, arguments, require, run_cases

CYCLES_PER_RUN = 40
MAPPINGS = 12  # what malloc and the cache of stacks may come to in the second half; a leak would be one for each cycle


def run(options, transport, size):
    cycles = options.runs * CYCLES_PER_RUN
    with Job(options.program, size, transport) as job:
        job.start_all([f"cycles count={cycles} size=65536"])
        job.expect_fine(10 + cycles * 2)
        for rank in job.ranks:
            held = [event for event in rank.events if event["event"] == "cycle"]
            require(len(held) == 10, f"rank {rank.number} told of {len(held)} cycles")
            middle, last = held[4], held[-1]
            for what, more in (("descriptors", 0), ("threads", 0), ("mappings", MAPPINGS)):
                require(last[what] <= middle[what] + more,
                        f"rank {rank.number}: {middle[what]} {what} after cycle {middle['n']}, {last[what]} after {last['n']}")
        return ", ".join(f"{last[what]} {what}" for what in ("descriptors", "threads", "mappings"))


def main():
    options = arguments(__doc__, runs=1)
    run_cases([(f"{options.runs * CYCLES_PER_RUN} cycles of {size} ranks over {t}", lambda t=t, size=size: run(options, t, size))
               for t in options.transports for size in (2, 3)], at_once=1)


main()
