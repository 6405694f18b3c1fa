"""The fastest rank returns and exits at once, without leave(), while others still work: no error anywhere."""

import random

from harness import Failed, Job, arguments, run_cases


def run(options, transport, number):
    choose = random.Random(options.seed * 100000 + number)
    size = choose.randint(2, 4)
    fastest = choose.randrange(size)
    sizes = choose.choice(["4", "4096", "65536,4", "1048576"])

    def commands(rank):
        loop = f"loop steps={choose_steps} sizes={sizes}"
        if rank == fastest:
            return [loop]
        # Others do something of their own after their last operation; some end by leave(), some by the destructor.
        return [loop, f"work ms={choose.choice([0, 1, 5, 20])}"] + choose.choice([[], ["leave"]])

    choose_steps = choose.choice([1, 2, 5])
    with Job(options.program, size, transport) as job:
        try:
            job.start_all(commands)
            job.expect_fine(30)
        except Failed as error:
            raise Failed(f"run {number} ({size} ranks, fastest {fastest}, sizes {sizes}): {error}")


def main():
    options = arguments(__doc__, runs=20)

    def case(transport):
        for number in range(options.runs):
            run(options, transport, number)

    run_cases([(f"{options.runs} quick exits over {t}", lambda t=t: case(t)) for t in options.transports], at_once=3)


main()
