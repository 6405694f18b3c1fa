"""Every collective by every algorithm it has, asked for by name, between processes on two pretended nodes: each takes the
algorithm and the transport that it was told, and every element is right. What the elements are, and how they are reduced,
how many ranks and in which buffers follows from the seed; kinds that are rare otherwise come first. --runs 2 and more: that
many walks over every transport, each of another seed."""

import itertools
import json
import os
import random

from harness import arguments, ask, require, run_cases

REDUCING = ("allreduce", "reduce", "reduce_scatter")
COLLECTIVES = (*REDUCING, "all_gather", "broadcast", "gather", "scatter", "alltoall", "barrier")
WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2"]
LOGICAL, BITWISE = ([f"{kind}_{of}" for of in ("and", "or", "xor")] for kind in ("logical", "bitwise"))
ARITHMETIC = ["sum", "prod", "min", "max"]
REDUCTIONS = [*itertools.product(FLOATS, [*ARITHMETIC, "avg"]), *itertools.product(WHOLE, [*ARITHMETIC, "avg", *LOGICAL, *BITWISE]),
              *itertools.product(["bool"], [*ARITHMETIC, *LOGICAL, *BITWISE])]
SIZES = "4,3000,70000"  # one message, unasked; one that is asked for; several tiles


def kinds(chance):
    """Types with operations without end, one of each rare kind first."""
    rare = [chance.choice([kind for kind in REDUCTIONS if of(*kind)]) for of in (
        lambda type_, op: type_ == "float8_e4m3", lambda type_, op: type_ == "float8_e5m2",
        lambda type_, op: type_ == "bool" and op in LOGICAL, lambda type_, op: type_ == "bool" and op not in LOGICAL,
        lambda type_, op: type_ != "bool" and op in LOGICAL, lambda type_, op: type_ != "bool" and op in BITWISE)]
    yield from chance.sample(rare, len(rare))
    while True:
        yield from chance.sample(REDUCTIONS, len(REDUCTIONS))


class Walk:
    def __init__(self, options, seed):
        self.options = options
        self.chance = random.Random(seed)
        self.listed = {}

    def algorithms(self, collective, ranks):
        """Those that there are for so many ranks on two nodes."""
        if (collective, ranks) not in self.listed:
            done, _ = ask(self.options, ["plan", collective, "--nodes", f"{ranks - ranks // 2},{ranks // 2}", "--explain", "--check"])
            require(done.returncode == 0, f"plan {collective} ended with {done.returncode}: {done.stderr}")
            lines = [line.split() for line in done.stdout.splitlines() if line.startswith("  ")]
            self.listed[collective, ranks] = [words[0] for words in lines if words[1] != "-"]
        return self.listed[collective, ranks]

    def calls(self):
        """What to run, in words of the command."""
        of_reductions, of_others = kinds(self.chance), kinds(self.chance)
        for collective in COLLECTIVES:
            most = self.algorithms(collective, 4)  # a power of two: all there are
            require(most, f"'fabring plan {collective} --explain' lists no algorithm")
            for algorithm in most:
                ranks = self.chance.choice([n for n in (2, 3, 4, 5) if algorithm in self.algorithms(collective, n)])
                type_, op = next(of_reductions if collective in REDUCING else of_others)
                words = [collective, "--algorithm", algorithm, "-n", str(ranks), "--split-nodes", "2"]
                if collective != "barrier":
                    words += ["-d", type_, "--sizes", SIZES]
                if collective in REDUCING:
                    words += ["-o", op]
                if collective in ("reduce", "broadcast", "gather", "scatter"):
                    words += ["-r", str(self.chance.randrange(ranks))]
                if collective != "barrier" and self.chance.random() < 0.5:
                    words.append("--in-place")
                yield algorithm, words


def measured(options, transport, algorithm, words):
    words = ["perf", *words, "--transport", transport, "-w", "0", "-i", "2", "--json", "--no-progress"]
    done, _ = ask(options, words, limit=60)
    told = f"fabring {' '.join(words)}"
    require(done.returncode == 0, f"{told} ended with {done.returncode}: {done.stderr}")
    for line in json.loads(done.stdout):
        require(line["wrong"] == 0, f"{told}: {line['wrong']} wrong elements of {line['count']}")
        for key, wanted in (("algorithm", algorithm), ("transport", transport), ("nodes", 2)):
            require(line[key] == wanted, f"{told}: {key} is {line[key]}")


def main():
    options = arguments(__doc__, runs=1)
    os.environ["FI_PROVIDER"] = "^psm,psm2,psm3"  # they calibrate a clock by sleeping
    networks = [transport for transport in options.transports if transport != "shm"]  # which there is not between nodes
    cases = []
    for run in range(options.runs):
        for number, (algorithm, words) in enumerate(Walk(options, options.seed + run).calls()):
            # The short form: the transports in turn, each time the other way round.
            for transport in networks if options.runs > 1 else [networks[(number + options.seed) % len(networks)]]:
                cases.append((f"{words[0]} by {algorithm} over {transport}",
                              lambda t=transport, a=algorithm, w=words: measured(options, t, a, w)))
    run_cases([case for case in cases if options.only in case[0]], at_once=2)


main()
