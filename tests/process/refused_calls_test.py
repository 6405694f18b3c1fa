"""A call that goes on for ever, or is wrong and nobody knows: one rank refuses it for its arguments, or the ranks disagree
about its root. Where one refuses it, the others, who wait in it, hear which rank it was and why, however they
called; unless the rank makes the call after all. Each on a communicator of its own, of the same processes."""

from harness import Job, arguments, require, run_cases

ODD = 1  # of three ranks
LARGE = 1 << 20

# What is wrong on one rank, with what the others call, and a word of the reason.
WRONG = [
    ("root", "broadcast", "there is no root 3"),
    ("root", "gather", "there is no root 3"),
    ("type", "allreduce", "has no meaning"),
    ("overlap", "allreduce", "overlap"),
    ("null", "allreduce", "null"),
    ("count", "allreduce", "more than memory can hold"),
    ("blocks", "all_gather", "4 lengths of blocks"),
]
MODES = ["blocking", "async", "prepared", "group"]


def cases():
    """Every reason; and every way to call, small and large."""
    for wrong, what, words in WRONG:
        yield wrong, what, words, "blocking", 4
    for mode in MODES:
        for count in (4, LARGE):
            yield "null", "allreduce", "null", mode, count


def ask(ranks, lines):
    """A command for each rank at once; what each said it was called to do."""
    starts = [len(rank.events) for rank in ranks]
    for rank, line in zip(ranks, lines):
        rank.say(line)
    for rank, line, start in zip(ranks, lines, starts):
        served = rank.wait_event("served", 20, lambda event: event["command"] == line, start)
        require(served["exit"] == 0, f"rank {rank.number}: '{line}' ended with {served['exit']}")
    return [rank.find("called", start=start) for rank, start in zip(ranks, starts)]


def expect_refused(event, number):
    require(event["code"] in ("invalid_argument", "unsupported"), f"rank {number}: {event['code']}: {event['text']}")


def expect_named(event, number, words):
    require(event["code"] == "mismatch", f"rank {number}: {event['code']}: {event['text']}")
    require(event["rank"] == ODD, f"rank {number}: the error is about rank {event['rank']}: {event['text']}")
    for word in (f"rank {ODD}", "refused", *words):
        require(word in event["text"], f"rank {number}: '{word}' is not in: {event['text']}")


def refused(options, transport):
    """All of them at once, each on its own communicator: the odd rank refuses its call, the others wait in theirs."""
    with Job(options.program, 3, transport) as job:
        all_cases = list(enumerate(cases()))
        splits = [f"split name=c{i} colour=0 key=0" for i, _ in all_cases]
        job.start_all([*splits, "loop steps=2 sizes=4,65536", "serve"])
        job.wait_event("serving", 30)
        for i, (wrong, what, words, mode, count) in all_cases:
            called = what if what != "all_gather" else "allreduce"
            right = f"call on=c{i} what={called} mode={mode} count={count}"
            odd_mode = "blocking" if mode == "prepared" else mode
            lines = [right] * 3
            lines[ODD] = f"call on=c{i} what={called} mode={odd_mode} count={count} wrong={wrong}"
            events = ask(job.ranks, lines)
            for number, event in enumerate(events):
                if number != ODD and event["code"] == "ok":  # nothing in that call had to wait for the odd rank
                    event = ask([job.ranks[number]], [f"call on=c{i} what=allreduce"])[0]
                expect_refused(event, number) if number == ODD else expect_named(event, number, [words])
            odd = job.ranks[ODD]
            odd.say(f"health on=c{i}")
            expect_named(odd.wait_event("health", 20, lambda event: event["on"] == f"c{i}"), ODD, [words])
            expect_named(ask([odd], [right])[0], ODD, [words])
        ask(job.ranks, ["loop steps=2 sizes=4,65536"] * 3)  # the world is none of their business
        for rank in job.ranks:
            rank.say("end")
        job.wait_exit(10)
        return f"{len(all_cases)} calls"


def repeated(options, transport):
    """Whoever is refused and calls rightly at once is waited for, and so is one that nobody has waited for yet."""
    with Job(options.program, 3, transport) as job:
        job.start_all(["loop steps=2 sizes=4,65536", "serve"])
        job.wait_event("serving", 30)
        odd, others = job.ranks[ODD], job.others(ODD)
        for count in (4, LARGE):
            right = f"call what=allreduce count={count}"
            for rank in others:
                rank.say(right)
            for wrong in ("null", "type", "count"):
                expect_refused(ask([odd], [f"{right} wrong={wrong}"])[0], ODD)
            require(ask([odd], [right])[0]["code"] == "ok", "the call was refused although it was right at last")
            for rank in others:
                rank.wait_event("served", 20, lambda event: event["command"] == right)
        for event in ask(job.ranks, ["call what=broadcast root=2"] * 3):
            require(event["code"] == "ok" and event["right"], f"{event}")
        for rank in job.ranks:
            rank.say("end")
        job.expect_fine(10)


def left(options, transport):
    """A rank that is refused and leaves: the reason is what the others hear, not that it left."""
    with Job(options.program, 3, transport) as job:
        job.start_all(lambda rank: ["loop steps=2 sizes=4"] +
                      ([f"call what=broadcast wrong=root", "leave"] if rank == ODD else ["call what=broadcast", "call what=allreduce"]))
        job.wait_exit(20)
        for rank in job.others(ODD):
            called = [event for event in rank.events if event["event"] == "called"]
            expect_named(next(event for event in called if event["code"] != "ok"), rank.number, ["there is no root 3"])


def roots(options, transport):
    """Ranks that name different roots, so that each can do its part alone, or each waits for another: all of them know
    it, also if nobody calls anything more."""
    with Job(options.program, 3, transport) as job:
        cases = [(what, named, count) for what in ("broadcast", "gather") for count in (4, LARGE)
                 for named in ((0, 1, 2), (0, 1, 0), (1, 2, 0), (1, 0, 0), (2, 2, 1))]
        job.start_all([*(f"split name=r{i} colour=0 key=0" for i in range(len(cases))), "serve"])
        job.wait_event("serving", 30)
        for i, (what, named, count) in enumerate(cases):
            for rank in job.ranks:
                rank.say(f"call on=r{i} what={what} root={named[rank.number]} count={count}")
                rank.say(f"health on=r{i}")
        for i, (what, named, count) in enumerate(cases):
            for rank in job.ranks:
                event = rank.wait_event("health", 30, lambda event: event["on"] == f"r{i}")
                require(event["code"] == "mismatch", f"rank {rank.number}: {what} {named}: {event['code']}: {event['text']}")
                require("root" in event["text"], f"rank {rank.number}: {what} {named}: {event['text']}")
        for rank in job.ranks:
            rank.say("end")
        job.wait_exit(10)
        return f"{len(cases)} calls"


def main():
    options = arguments(__doc__, runs=1)
    run_cases([(f"{name} over {transport}", lambda run=run, transport=transport: run(options, transport))
               for transport in options.transports for name, run in (
                   ("a refused call ends on every rank", refused),
                   ("a refused call may be repeated", repeated),
                   ("a rank that is refused and leaves is named", left),
                   ("different roots are known to all ranks", roots))
               if options.only in name for _ in range(options.runs)], at_once=2)


main()
