"""FABRING_REPRODUCIBLE between processes: the bits are those of one fold on one rank, over every transport, by whatever settings."""

from harness import Failed, Job, arguments, require, run_cases

SHORT = "8,4000,33000,70000"  # bytes: on both sides of what is sent unasked, and of what is cut
SIZES = SHORT + ",700000"
VERBS = [f"rough sizes={sizes} type={type_} op={op} mapped={mapped}"
         for sizes, type_, op, mapped in [
             (SIZES, "float32", "sum", 0), (SIZES, "float32", "avg", 1), (SIZES, "bfloat16", "sum", 0), (SIZES, "float16", "avg", 0),
             (SIZES, "float16", "prod", 1), (SIZES, "float64", "sum", 1), (SIZES, "bfloat16", "avg", 1),
             (SHORT, "float8_e4m3", "sum", 1), (SHORT, "float8_e5m2", "avg", 0), (SHORT, "float8_e4m3", "premul_sum", 0),
             (SHORT, "float32", "premul_sum", 0), (SHORT, "bfloat16", "premul_sum", 1), (SHORT, "float32", "user", 1),
             (SHORT, "float16", "user", 0), (SHORT, "float8_e5m2", "user", 0)]]
SETTINGS = [{}, {"FABRING_ALGORITHM": "ring"}, {"FABRING_ALGORITHM": "fold"}, {"FABRING_ALGORITHM": "fold", "FABRING_DEPTH": "2"}, {"FABRING_ALGORITHM": "circulant", "FABRING_SEGMENT_BYTES": "20000", "FABRING_DEPTH": "1"}]


def run(options, transport, ranks, nodes, settings):
    settings = {"FI_PROVIDER": "^psm,psm2,psm3", "FABRING_REPRODUCIBLE": "1", **settings}  # they calibrate a clock by sleeping
    with Job(options.program, ranks, transport, settings) as job:
        try:
            for number in range(ranks):
                job.start(number, [*VERBS, "leave"], {"FABRING_HOST_ID": f"node{number * nodes // ranks}"} if nodes > 1 else {})
            job.expect_fine(60)
        except Failed as error:
            raise Failed(f"{ranks} ranks on {nodes} nodes, {settings}: {error}")
        told = [[event["bits"] for event in rank.events if event["event"] == "digest"] for rank in job.ranks]
        require(all(bits == told[0] for bits in told) and len(told[0]) == len(VERBS), f"digests differ: {told}")
        return told[0]


def main():
    options = arguments(__doc__, runs=1)
    worlds = [(transport, 1) for transport in options.transports]
    if "tcp" in options.transports and "shm" in options.transports:
        worlds.append(("shm,tcp", 2))  # inside a node through one, between nodes over the other
    digests = {}

    def case(transport, nodes, settings, ranks):
        for _ in range(options.runs):
            bits = run(options, transport, ranks, nodes, settings)
            require(digests.setdefault(ranks, bits) == bits, f"not the bits that another launch of {ranks} ranks had")

    run_cases([(f"{ranks} ranks on {nodes} nodes over {transport} with {settings or 'no settings'}",
                lambda transport=transport, nodes=nodes, settings=settings, ranks=ranks: case(transport, nodes, settings, ranks))
               for transport, nodes in worlds for settings, ranks in zip(SETTINGS, (4, 3, 3, 5, 5))], at_once=2)


main()
