"""v-variants, messages and two communicators at once, between processes over real transports."""

from harness import Failed, Job, arguments, run_cases

LEAST = {"FABRING_SCRATCH_BYTES": "4096", "FABRING_DEPTH": "1"}  # the last rank has more: the least must count


def run(options, transport, verb, ranks, unit, settings, steps):
    settings = {"FI_PROVIDER": "^psm,psm2,psm3", **settings}  # they calibrate a clock by sleeping
    with Job(options.program, ranks, transport, settings) as job:
        try:
            for number in range(ranks):
                more = {"FABRING_SCRATCH_BYTES": "64K"} if settings.get("FABRING_DEPTH") and number == ranks - 1 else {}
                job.start(number, [f"{verb} steps={steps} unit={unit}", "leave"], more)
            job.expect_fine(40)
        except Failed as error:
            raise Failed(f"{verb}, {ranks} ranks, units of {unit}, {settings}: {error}")


def main():
    options = arguments(__doc__, runs=1)
    kinds = [
        ("blocks", 4, 1000, {}, 4),
        ("blocks", 3, 40_000, {}, 2),
        ("messages", 4, 1000, {}, 4),
        ("messages", 2, 100_000, {}, 3),
        ("crossed", 3, 20_000, {}, 8),
        ("crossed", 4, 5_000, LEAST, 8),
    ]

    def case(transport, kind):
        for _ in range(options.runs):
            run(options, transport, *kind)

    run_cases([(f"{kind[0]} of {kind[2]} between {kind[1]} ranks{' with the least scratch' if kind[3] is LEAST else ''} over {t}",
                lambda t=t, kind=kind: case(t, kind)) for t in options.transports for kind in kinds], at_once=2)


main()
