"""A communicator that one rank has dropped: the others, who call there, hear which rank it was. What it has taken part in
before ends well, also where others are late in it, and so does all else."""

from harness import Job, arguments, call_on, require, run_cases

ODD = 1  # of three ranks
LARGE = 1 << 20


def expect_named(event, number):
    require(event["code"] == "mismatch", f"rank {number}: {event['code']}: {event['text']}")
    require(event["rank"] == ODD, f"rank {number}: the error is about rank {event['rank']}: {event['text']}")
    for word in (f"rank {ODD}", "has dropped communicator"):
        require(word in event["text"], f"rank {number}: '{word}' is not in: {event['text']}")


def dropped(options, transport):
    """Small and large calls, after some and after none; and messages both ways."""
    calls = [(f"what=allreduce count={count}", before) for count in (4, LARGE) for before in (0, 2)]
    calls += [(f"what=recv root={ODD} count={LARGE}", 1), (f"what=send root={ODD} count={LARGE}", 1)]
    with Job(options.program, 3, transport) as job:
        job.start_all([*(f"split name=c{i} colour=0 key=0" for i, _ in enumerate(calls)), "loop steps=2 sizes=4,65536", "serve"])
        job.wait_event("serving", 30)
        others = job.others(ODD)
        for i, (call, before) in enumerate(calls):
            for _ in range(before):
                call_on(job.ranks, [f"call on=c{i} what=allreduce count=16"] * 3)
            require(job.ranks[ODD].ask(f"drop name=c{i}", 20) == 0, "not dropped")
            # Of two that wait in a message only one does for the odd rank; the other hears of it all the same.
            lines = [f"call on=c{i} {call}", f"call on=c{i} what=allreduce"] if "root" in call else [f"call on=c{i} {call}"] * 2
            for rank, event in zip(others, call_on(others, lines)):
                expect_named(event, rank.number)
        call_on(job.ranks, ["loop steps=2 sizes=4,65536"] * 3)  # the world is none of their business
        for rank in job.ranks:
            rank.say("end")
        job.wait_exit(10)
        return f"{len(calls)} calls"


def done_before(options, transport):
    """The root of a broadcast has sent, and drops the communicator; a late rank takes what it sent."""
    with Job(options.program, 3, transport) as job:
        job.start_all(["split name=c colour=0 key=0", "loop steps=2 sizes=4", "serve"])
        job.wait_event("serving", 30)
        root, late = job.ranks[ODD], job.ranks[2]
        call = f"call on=c what=broadcast root={ODD} count=16"
        call_on([job.ranks[0], root], [call] * 2)
        require(root.ask("drop name=c", 20) == 0, "not dropped")
        require(late.ask("work ms=2500", 20) == 0, "no work")
        event = call_on([late], [call])[0]
        require(event["code"] == "ok" and event["right"], f"{event}")
        for rank in job.ranks:
            rank.say("end")
        job.expect_fine(10)


def main():
    options = arguments(__doc__, runs=1)
    run_cases([(f"{name}, {transport}", lambda case=case, transport=transport: case(options, transport))
               for transport in options.transports
               for name, case in (("who dropped a communicator is named", dropped),
                                  ("what was called there before ends well", done_before))
               if options.only in name for _ in range(options.runs)], at_once=3)


main()
