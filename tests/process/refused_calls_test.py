"""A call that goes on for ever, or is wrong and nobody knows: one rank refuses it for its arguments, or the ranks disagree
about its root. Where one refuses it, the others, who wait in it, hear which rank it was and why, however they
called; unless the rank makes the call after all. Each on a communicator of its own, of the same processes."""

import time

import harness
from harness import Job, arguments, call_on, require, run_cases

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
            lines = [right] * 3
            lines[ODD] = f"call on=c{i} what={called} mode={mode} count={count} wrong={wrong}"
            events = call_on(job.ranks, lines)
            for number, event in enumerate(events):
                if number != ODD and event["code"] == "ok":  # nothing in that call had to wait for the odd rank
                    event = call_on([job.ranks[number]], [f"call on=c{i} what=allreduce"])[0]
                expect_refused(event, number) if number == ODD else expect_named(event, number, [words])
            odd = job.ranks[ODD]
            odd.say(f"health on=c{i}")
            expect_named(odd.wait_event("health", 20, lambda event: event["on"] == f"c{i}"), ODD, [words])
            expect_named(call_on([odd], [right])[0], ODD, [words])
        call_on(job.ranks, ["loop steps=2 sizes=4,65536"] * 3)  # the world is none of their business
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
                expect_refused(call_on([odd], [f"{right} wrong={wrong}"])[0], ODD)
            require(call_on([odd], [right])[0]["code"] == "ok", "the call was refused although it was right at last")
            for rank in others:
                rank.wait_event("served", 20, lambda event: event["command"] == right)
        for event in call_on(job.ranks, ["call what=broadcast root=2"] * 3):
            require(event["code"] == "ok" and event["right"], f"{event}")
        for rank in job.ranks:
            rank.say("end")
        job.expect_fine(10)


# What the odd rank refuses, and what rank 0 waits in.
MESSAGES = [
    ("what=send root=0 tag=3 wrong=null", "what=recv root=1 tag=3", "null"),
    ("what=send root=7 tag=3", "what=recv root=1 tag=-1", "there is no rank 7"),
    ("what=send root=0 tag=-2", "what=recv root=1 tag=3", "the tag is -2"),
    (f"what=recv root=0 tag=3 count={LARGE} wrong=null", f"what=send root=1 tag=3 count={LARGE}", "null"),
    (f"what=recv root=-1 tag=-1 count={LARGE} wrong=null", f"what=send root=1 tag=3 count={LARGE}", "null"),
    (f"what=recv root=5 count={LARGE}", f"what=send root=1 count={LARGE}", "there is no rank 5"),
]


def messages(options, transport):
    """The other side of a send or receive that is refused hears why; the rest of the communicator with it."""
    with Job(options.program, 3, transport) as job:
        wrongs = list(enumerate(MESSAGES))
        job.start_all([*(f"split name=m{i} colour=0 key=0" for i, _ in wrongs), "loop steps=2 sizes=4,65536", "serve"])
        job.wait_event("serving", 30)
        for i, (wrong, other, words) in wrongs:
            first, odd, third = call_on(job.ranks, [f"call on=m{i} {other}", f"call on=m{i} {wrong}", f"call on=m{i} what=allreduce"])
            expect_refused(odd, ODD)
            for number, event in ((0, first), (2, third)):
                expect_named(event, number, [words, wrong.split()[0].removeprefix("what=")])
        call_on(job.ranks, ["loop steps=2 sizes=4,65536"] * 3)
        for rank in job.ranks:
            rank.say("end")
        job.wait_exit(10)
        return f"{len(wrongs)} messages"


def messages_repeated(options, transport):
    """A send or receive that takes the place of the refused one is waited for, and so is one with another tag."""
    with Job(options.program, 3, transport) as job:
        job.start_all(["loop steps=2 sizes=4", "serve"])
        job.wait_event("serving", 30)
        first, odd = job.ranks[0], job.ranks[ODD]
        for ours, theirs in (("recv", "send"), ("send", "recv")):
            right = f"call what={ours} root=1 tag=3 count={LARGE}"
            first.say(right)
            for wrong in (f"call what={theirs} root=0 tag=4 count={LARGE} wrong=null",
                          f"call what={theirs} root=0 tag=3 count={LARGE} wrong=null"):
                expect_refused(call_on([odd], [wrong])[0], ODD)
            require(call_on([odd], [f"call what={theirs} root=0 tag=3 count={LARGE}"])[0]["code"] == "ok", "not sent at last")
            first.wait_event("served", 20, lambda event, right=right: event["command"] == right)
            # Of the other tag the others know after a while; nobody waits for it.
            first.say(right)
            require(odd.ask("work ms=2500", 20) == 0, "no work")
            require(call_on([odd], [f"call what={theirs} root=0 tag=3 count={LARGE}"])[0]["code"] == "ok", "ended by another tag")
            first.wait_event("served", 20, lambda event, right=right: event["command"] == right)
        require(all(event["code"] == "ok" for event in call_on(job.ranks, ["call what=allreduce"] * 3)), "the world has failed")
        for rank in job.ranks:
            rank.say("end")
        job.expect_fine(10)


def subgroups(options, transport):
    """A rank that does not make a subgroup, as it has named wrong ranks, is named by those who wait in it; unless it does
    in the end."""
    with Job(options.program, 3, transport) as job:
        job.start_all(["loop steps=2 sizes=4", "serve"])
        job.wait_event("serving", 30)
        odd, others = job.ranks[ODD], job.others(ODD)
        for number, wrong, words in ((5, "0,1,1", "twice"), (6, "0,1,3", "there is no rank 3"), (7, "0,2", "only ranks that are in")):
            for rank in job.ranks:
                rank.say(f"subgroup name=s{number} number={number} ranks={wrong if rank is odd else '0,1,2'}")
            refused = odd.wait_event("subgroup", 20, lambda event: event["name"] == f"s{number}")
            expect_refused(refused, ODD)
            if number == 6:
                for rank in others:
                    rank.say("call on=s6 what=allreduce")
                odd.say("subgroup name=s6 number=6 ranks=0,1,2")
                require(call_on([odd], ["call on=s6 what=allreduce"])[0]["code"] == "ok", "it was made in the end")
                for rank in others:
                    rank.wait_event("served", 20, lambda event: event["command"] == "call on=s6 what=allreduce")
                continue
            for rank, event in zip(others, call_on(others, [f"call on=s{number} what=allreduce"] * 2)):
                expect_named(event, rank.number, [words, f"make communicator 's{number}'"])
        for rank in job.ranks:
            rank.say("end")
        job.wait_exit(10)


def healthy_subgroups(options, transport):
    """A subgroup goes on when one of its ranks is refused another of its number: one that is made already, or one that it is
    no member of. Those who did make the other one hear why it never came."""
    with Job(options.program, 4, transport) as job:
        job.start_all(["loop steps=2 sizes=4", "serve"])
        job.wait_event("serving", 30)
        odd = job.ranks[ODD]

        def go_on(groups):
            """In each the first rank waits long enough for its second to have told what it was refused."""
            for first, second, name in groups:
                first.say(f"call on={name} what=allreduce")
                second.say("work ms=2500")
                second.say(f"call on={name} what=allreduce")
            for first, second, name in groups:
                for rank in (first, second):
                    event = rank.wait_event("called", 30, start=rank.marked)
                    require(event["code"] == "ok", f"{name}, rank {rank.number}: {event['text']}")

        def make(rank, name, number, ranks):
            start = len(rank.events)
            rank.say(f"subgroup name={name} number={number} ranks={ranks}")
            event = rank.wait_event("subgroup", 20, start=start)
            rank.marked = len(rank.events)
            return event

        for rank in job.ranks[:2]:
            require(make(rank, "twice", 5, "0,1")["code"] == "ok", "not made")
        expect_refused(make(odd, "again", 5, "0,1,2"), ODD)
        # A program that asks for all groups on all ranks.
        for rank in job.ranks:
            for name, ranks in (("low", "0,1"), ("high", "2,3")):
                event = make(rank, name, 6, ranks)
                require((event["code"] == "ok") == (str(rank.number) in ranks), f"rank {rank.number}: {event}")
        go_on([(job.ranks[0], odd, "low"), (job.ranks[2], job.ranks[3], "high")])
        for number, gone in ((5, False), (7, True)):
            name = f"late{number}"
            if gone:
                for rank in job.ranks[:2]:
                    require(make(rank, "early", number, "0,1")["code"] == "ok", "not made")
                call_on(job.ranks[:2], ["call on=early what=allreduce"] * 2)
                odd.say("drop name=early")
            expect_refused(make(odd, name, number, "1,2"), ODD)
            require(make(job.ranks[2], name, number, "1,2")["code"] == "ok", "not made")
            event = call_on([job.ranks[2]], [f"call on={name} what=allreduce"])[0]
            if gone:
                expect_named(event, 2, [f"the number {number} was given to an earlier one"])
            else:  # it might as well have given another list
                require(event["code"] == "mismatch" and "gave [0, 1]" in event["text"], f"{event}")
        for rank in job.ranks[:2]:
            rank.marked = len(rank.events)
        go_on([(job.ranks[0], odd, "twice")])
        for rank in job.ranks:
            rank.say("end")
        job.wait_exit(10)


def dropped(options, transport):
    """A rank that is refused and drops the communicator at once: the others hear why, as nobody can repeat the call."""
    with Job(options.program, 3, transport) as job:
        wrongs = [("what=allreduce wrong=null", "what=allreduce", "null"),
                  ("what=send root=0 tag=3 wrong=null", "what=recv root=1 tag=3", "null")]
        job.start_all([*(f"split name=d{i} colour=0 key=0" for i, _ in enumerate(wrongs)), "loop steps=2 sizes=4", "serve"])
        job.wait_event("serving", 30)
        took = []
        for i, (wrong, other, words) in enumerate(wrongs):
            began = time.monotonic()
            for line in (f"call on=d{i} {wrong}", f"drop name=d{i}", "call what=allreduce"):
                job.ranks[ODD].say(line)
            expect_named(call_on([job.ranks[0]], [f"call on=d{i} {other}"])[0], 0, [words])
            took.append(time.monotonic() - began)
            call_on(job.others(ODD), ["call what=allreduce"] * 2)
        require(max(took) < 5 * harness.slowness, f"told after {max(took):.1f} s")
        for rank in job.ranks:
            rank.say("end")
        job.wait_exit(10)
        return f"told after {max(took):.1f} s"


def unlike_subgroups(options, transport):
    """Ranks that make a subgroup of other ranks, or in another order: each of them hears both lists, whether its call had to
    wait or not."""
    lists = [("0,1,2", "1,0,2", "0,1,2"), ("0,1,2", "0,1,2", "2,1,0"), ("0,1", "1,0", None), ("0,1,2", "0,1", "0,1,2"),
             (None, "1,2", "0,1,2")]
    with Job(options.program, 3, transport) as job:
        job.start_all(["loop steps=2 sizes=4", "serve"])
        job.wait_event("serving", 30)
        for number, (ranks, count) in enumerate([(ranks, count) for ranks in lists for count in (4, LARGE)]):
            for rank, own in zip(job.ranks, ranks):
                if own:
                    for line in (f"subgroup name=u{number} number={number} ranks={own}",
                                 f"call on=u{number} what=allreduce count={count} check=0", f"health on=u{number}"):
                        rank.say(line)
            for rank, own in zip(job.ranks, ranks):
                if own:
                    event = rank.wait_event("health", 20, lambda event, number=number: event["on"] == f"u{number}")
                    require(event["code"] == "mismatch", f"rank {rank.number}: {ranks} {count}: {event}")
                    both = [text.replace(",", ", ") for text in set(ranks) - {None}]
                    require(all(f"gave [{text}]" in event["text"] for text in both), f"rank {rank.number}: {ranks} {count}: {event}")
        call_on(job.ranks, ["loop steps=2 sizes=4,65536"] * 3)
        for rank in job.ranks:
            rank.say("end")
        job.wait_exit(10)
        return f"{number + 1} subgroups"


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


def roots_at_the_end(options, transport):
    """The same in the last call of all: every rank hears it from its call or when it leaves, also if the communicator is
    given up before."""
    for count, named, given_up in ((4, (0, 1, 0), False), (4, (0, 1, 2), True), (LARGE, (0, 1, 2), False), (4, (1, 2, 2), True),
                                   (4, (0, 0, 1), False)):
        with Job(options.program, 3, transport, {"FABRING_LEAVE_TIMEOUT": "20s"}) as job:
            job.start_all(lambda rank: [
                "split name=r colour=0 key=0", "call on=r what=allreduce", f"call on=r what=broadcast root={named[rank]} count={count}",
                *(["drop name=r"] if given_up else []), "leave"])
            job.wait_exit(30)
            for rank in job.ranks:
                said = [event for event in rank.events if event.get("code") == "mismatch"]
                require(said, f"rank {rank.number}: {named} {count} {given_up}: nothing was said")
                require("root" in said[0]["text"], f"rank {rank.number}: {named}: {said[0]['text']}")


def alike_at_the_end(options, transport):
    """Ranks that did the same hear nothing, whatever they have given up and however many calls of some were the last."""
    with Job(options.program, 3, transport) as job:
        job.start_all(lambda rank: [
            *(line for i in range(3) for line in (f"split name=p{i} colour={rank % 2} key=0", f"call on=p{i} what=allreduce",
                                                  f"call on=p{i} what=broadcast root=0", f"drop name=p{i}")),
            "blocks steps=2 unit=10", "messages steps=2 unit=10", "subgroup name=s number=3 ranks=0,1,2", "call on=s what=allreduce",
            "leave"])
        job.expect_fine(30)
        for rank in job.ranks:
            require(all(event["code"] == "ok" for event in rank.events if event["event"] == "called"), f"rank {rank.number}")


def left_early(options, transport):
    """A rank that leaves while others wait for what it never called: they hear it within a second, not only those that
    wait for it directly."""
    with Job(options.program, 3, transport) as job:
        job.start_all(["loop steps=3 sizes=4,65536", "serve"])
        job.wait_event("serving", 30)
        job.ranks[ODD].say("end")
        job.ranks[ODD].wait_event("end", 5)
        began = time.monotonic()
        took = []
        for rank, line in ((job.ranks[0], f"call what=recv root={ODD} tag=1"), (job.ranks[2], "call what=allreduce")):
            rank.say(line)
        for rank in job.others(ODD):
            event = rank.wait_event("called", 20)
            took.append(time.monotonic() - began)
            require(event["code"] == "peer_lost" and event["rank"] == ODD, f"rank {rank.number}: {event}")
            for word in (f"rank {ODD} (host ", f", pid {job.ranks[ODD].process.pid})", "has left the job without"):
                require(word in event["text"], f"rank {rank.number}: '{word}' is not in: {event['text']}")
        require(max(took) < 1.0 * harness.slowness, f"told after {max(took):.1f} s")
        return f"told after {max(took):.2f} s"


def main():
    options = arguments(__doc__, runs=1)
    run_cases([(f"{name} over {transport}", lambda run=run, transport=transport: run(options, transport))
               for transport in options.transports for name, run in (
                   ("a refused call ends on every rank", refused),
                   ("a refused call may be repeated", repeated),
                   ("a refused send or receive ends on its other side", messages),
                   ("a refused send or receive may be repeated", messages_repeated),
                   ("a subgroup that one rank does not make ends on the others", subgroups),
                   ("a subgroup goes on when another of its number is refused", healthy_subgroups),
                   ("a rank that is refused and drops the communicator is named", dropped),
                   ("lists of a subgroup that differ are named", unlike_subgroups),
                   ("a rank that is refused and leaves is named", left),
                   ("different roots are known to all ranks", roots),
                   ("different roots in the last call are known to all ranks", roots_at_the_end),
                   ("ranks that did the same leave without a word", alike_at_the_end),
                   ("a rank that leaves early is named at once", left_early))
               if options.only in name for _ in range(options.runs)], at_once=5)


main()
