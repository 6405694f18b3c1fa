"""Ranks that give different lengths of blocks, or some of them and others none: all of them know it, whether their call had
to wait for the odd one or not, however they called, and also if nobody calls anything more. Each on a communicator of its
own, of all ranks or of some, of one host or of two pretended ones."""

import itertools

from harness import Job, arguments, require, run_cases

COLLECTIVES = ("all_gather", "reduce_scatter", "gather", "scatter")
MODES = ("blocking", "async", "prepared", "group")
UNITS = (1, 30_000)


def changed(lengths, odd):
    """What the odd one gives instead, each with a name."""
    before, after = lengths[(odd - 1) % len(lengths)], lengths[(odd + 1) % len(lengths)]
    swapped, empty = list(lengths), list(lengths)
    swapped[(odd - 1) % len(lengths)], swapped[(odd + 1) % len(lengths)] = after, before  # its own block is as the others say
    empty[odd] = 0
    return {"two others swapped": swapped, "turned": lengths[1:] + lengths[:1], "its own empty": empty, "no lengths": None}


def calls():
    """What most call, what the odd member calls, and how: every change of every collective, the ways to call in turn."""
    everything = itertools.product(COLLECTIVES, ("two others swapped", "turned", "its own empty", "no lengths"), UNITS)
    for number, (what, change, unit) in enumerate(everything):
        members = (0, 1, 2, 3) if number % 3 else (3, 1, 0)
        odd = (number // 3) % len(members)
        lengths = [unit * (1 if change == "no lengths" else 2 + member) for member in range(len(members))]
        one = changed(lengths, odd)[change]
        most = f"call_v on=c{number} what={what} mode={MODES[number // 2 % 4]} root={number % len(members)}"
        yield (number, members, odd, f"{most} lengths={','.join(map(str, lengths))}",
               f"{most} lengths={','.join(map(str, one))}" if one else f"{most} count={unit}", change)


def unlike(options, transport, nodes):
    with Job(options.program, 4, transport) as job:
        for rank in range(4):
            job.start(rank, ["loop steps=2 sizes=4,65536", "serve"], {"FABRING_HOST_ID": f"node{rank * nodes // 4}"} if nodes > 1 else {})
        job.wait_event("serving", 30)
        all_calls = list(calls())
        for number, members, odd, most, one, _ in all_calls:
            for place, member in enumerate(members):
                for line in (f"subgroup name=c{number} number={number + 1} ranks={','.join(map(str, members))}",
                             one if place == odd else most, f"health on=c{number}"):
                    job.ranks[member].say(line)
        for number, members, odd, most, _, change in all_calls:
            for place, member in enumerate(members):
                event = job.ranks[member].wait_event("health", 30, lambda event, number=number: event["on"] == f"c{number}")
                told = f"rank {member}, {change} on rank {members[odd]}, most: {most}: {event['code']}: {event['text']}"
                require(event["code"] == "mismatch" and "differs between ranks" in event["text"], told)
                called = job.ranks[member].find("called", lambda event, number=number: event["on"] == f"c{number}")
                require(called["code"] in ("ok", "mismatch"), f"{told}; the call: {called['code']}: {called['text']}")
        starts = [len(rank.events) for rank in job.ranks]
        for rank in job.ranks:  # the world is none of their business
            rank.say("loop steps=2 sizes=4,65536")
        for rank, start in zip(job.ranks, starts):
            rank.wait_event("done", 20, start=start)
        for rank in job.ranks:
            rank.say("end")
        job.wait_exit(10)
        return f"{len(all_calls)} calls"


def main():
    options = arguments(__doc__, runs=1)
    worlds = [(transport, 1) for transport in options.transports]
    if "tcp" in options.transports and "shm" in options.transports:
        worlds.append(("shm,tcp", 2))
    run_cases([(f"lengths that differ over {transport} on {nodes} nodes",
                lambda transport=transport, nodes=nodes: unlike(options, transport, nodes))
               for transport, nodes in worlds for _ in range(options.runs)], at_once=2)


main()
