"""Those who are left after deaths agree on who that is with shrink(), and go on: whoever dies, and also while they agree.
Who was only silent is told that the others went on; of two halves that take each other for lost one goes on at most."""

import itertools
import random
import signal

import harness
from harness import Job, arguments, quantiles, require, run_cases

LIMIT = 2.0  # seconds from the error of a lost rank to the end of a right allreduce among those who are left


def shrink(ranks, on, name, size):
    """All of these shrink; returns their events, which must agree."""
    for rank in ranks:
        rank.say(f"shrink on={on} name={name}")
    events = [rank.wait_event("shrink", 30, lambda event: event["name"] == name) for rank in ranks]
    for place, (rank, event) in enumerate(zip(ranks, events)):
        require(event["code"] == "ok", f"rank {rank.number}: {event}")
        require(event["size"] == size, f"rank {rank.number} is in a group of {event['size']} instead of {size}")
        require(event["place"] == place, f"rank {rank.number} is rank {event['place']} of those who are left, and not {place}")
    return events


def lost(ranks, victims, limit=20):
    """All have an error that names one of these; the time of the last."""
    return max(rank.wait_event("error", limit, lambda event: event["rank"] in victims)["t"] for rank in ranks)


def go_on(options, transport, victims):
    """One death after the other in the middle of allreduces, each followed by a shrink and right allreduces."""
    times = []
    with Job(options.program, 5, transport) as job:
        job.start_all(["serve"])
        job.wait_event("serving", 30)
        left, group = list(job.ranks), "world"
        for number, victim in enumerate(victims, 1):
            left = job.kill_in_a_loop(victim, group, left)
            failed = lost(left, [victim])
            before, group = group, f"left{number}"
            events = shrink(left, before, group, len(left))
            require(f"without rank {victim}" in events[0]["label"], f"its name is {events[0]['label']}")
            for rank in left:
                rank.say(f"loop on={group} steps=20 sizes=4,65536,4194304")
            for rank in left:
                rank.wait_event("done", 30, lambda event: event["on"] == group)
            first = max(rank.find("step", start=rank.events.index(event))["t"] for rank, event in zip(left, events))
            times.append(first - failed)
            require(times[-1] <= LIMIT * harness.slowness, f"a right allreduce only {times[-1]:.2f} s after the error")
        for number, rank in enumerate(left):  # who is done first waits for the others, as where nobody was lost
            rank.say(f"work ms={600 * number}")
            rank.say("leave")
            rank.say("end")
        for rank in left:
            rank.wait_event("left", 30)  # and not an error of leave()
            require(rank.wait_exit(30) == 0, f"rank {rank.number} ended with {rank.exit_code}")
    return times


def dies_meanwhile(options, transport, seed):
    """Ranks die while the others agree, or have just done so: at once or one after the other, with a pause or without.
    However often it takes, all who live end in the same group."""
    source = random.Random(seed)
    size = source.choice([3, 4, 6, 8])
    with Job(options.program, size, transport) as job:
        job.start_all(["serve"])
        job.wait_event("serving", 30)
        for rank in job.ranks:
            rank.say("loop on=world steps=1 sizes=65536")
        job.wait_event("done", 30)
        victims = source.sample(range(size), source.randrange(1, size))
        left = job.others(*victims)
        late = source.choice(left)
        for rank in job.ranks:
            if rank is not late:
                rank.say("shrink on=world name=first")
        for victim in victims:
            pause(job.ranks[victim], source.choice([0, 0, 0.001, 0.01]))
            job.ranks[victim].signal(signal.SIGKILL)
            if victim == victims[len(victims) // 2]:
                late.say("shrink on=world name=first")
        group = "first"
        for again in itertools.count(1):
            events = [rank.wait_event("shrink", 30, lambda event: event["name"] == group) for rank in left]
            require(all(event["code"] == "ok" for event in events), f"seed {seed}: {events}")
            require(len({(event["label"], event["size"]) for event in events}) == 1, f"seed {seed}: they differ: {events}")
            if events[0]["size"] == len(left):
                break
            require(again <= len(victims), f"seed {seed}: still {events[0]} after {again} shrinks")
            before, group = group, f"again{again}"  # it has one that died since
            for rank in left:
                rank.say(f"shrink on={before} name={group}")
        for rank in left:
            rank.say(f"loop on={group} steps=3 sizes=4,65536,1048576")
        for rank in left:
            rank.wait_event("done", 30, lambda event: event["on"] == group)


def pause(rank, seconds):
    """Not a wait for anything: when a rank dies is what is tried."""
    with rank.changed:
        rank.changed.wait_for(lambda: rank.exit_code is not None, seconds)


def silent(options, transport, size, victims, goes_on, words="sizes=65536"):
    """Stopped ranks may be alive: a majority goes on without them, of two halves that with rank 0, and no other. Those that
    come back are told."""
    with Job(options.program, size, transport, {"FABRING_SILENCE_TIMEOUT": str(2 * harness.slowness)}) as job:
        job.start_all(["serve"])
        job.wait_event("serving", 30)
        for rank in job.ranks:
            rank.say(f"loop on=world steps=0 every=10 {words}")
        job.wait_event("step", 30)
        for victim in victims:
            job.ranks[victim].signal(signal.SIGSTOP)
        left = job.others(*victims)
        lost(left, victims, 30)
        if goes_on:
            shrink(left, "world", "left", len(left))
            for rank in left:
                rank.say("loop on=left steps=5 sizes=4,1048576")
            for rank in left:
                rank.wait_event("done", 30, lambda event: event["on"] == "left")
        else:
            refused(left, [f"rank {victim}" if len(victims) == 1 else "ranks 0 and 1" for victim in victims])
        for victim in victims:
            job.ranks[victim].signal(signal.SIGCONT)
        if goes_on:
            stopped = [job.ranks[victim] for victim in victims]
            for rank in stopped:
                rank.wait_event("error", 30)
            refused(stopped, [])
            once_more = "loop on=left steps=6 sizes=4,1048576"
            for rank in left:  # and those who went on do not mind
                rank.say(once_more)
            for rank in left:
                served = rank.wait_event("served", 30, lambda event: event["command"] == once_more)
                require(served["exit"] == 0, f"rank {rank.number}: {rank.errors()[-1]}")


def refused(ranks, words):
    for rank in ranks:
        rank.say("shrink on=world name=left")
    for rank in ranks:
        event = rank.wait_event("shrink", 30)
        require(event["code"] == "peer_lost", f"rank {rank.number}: {event}")
        for word in words:
            require(word in event["text"], f"rank {rank.number}: '{word}' is not in {event['text']}")


def others_have_left(options, transport):
    """Who has left in good order is left out as well; of a communicator that is well, a shrink is a duplicate."""
    with Job(options.program, 4, transport) as job:
        job.start_all(["serve"])
        job.wait_event("serving", 30)
        shrink(job.ranks, "world", "all", 4)
        for rank in job.ranks:
            rank.say("loop on=all steps=5 sizes=4,65536")
        job.wait_event("done", 30)
        for number in (0, 2):
            job.ranks[number].say("end")
            job.ranks[number].say("end")
        left = job.others(0, 2)
        shrink(left, "all", "left", 2)
        for rank in left:
            rank.say("loop on=left steps=5 sizes=4,65536")
        for rank in left:
            rank.wait_event("done", 30, lambda event: event["on"] == "left")


def waits(options, transport):
    """One that does not call is named, also to those who do not collect; the call ends after FABRING_TIMEOUT."""
    with Job(options.program, 3, transport, {"FABRING_TIMEOUT": str(4 * harness.slowness)}) as job:
        job.start_all(["serve"])
        job.wait_event("serving", 30)
        for number in (0, 1):
            job.ranks[number].say("shrink on=world name=left")
        for number in (0, 1):
            event = job.ranks[number].wait_event("shrink", 20)
            require(event["code"] == "timeout" and event["rank"] == 2, f"rank {number}: {event}")
            require("rank 2" in event["text"] and "not called it yet" in event["text"], f"rank {number}: {event['text']}")
            job.ranks[number].wait_log(("shrink of 'world' has waited", "rank 2"), 5)
        shrink(job.ranks, "world", "later", 3)  # when all call it, it is right after all


def main():
    options = arguments(__doc__, runs=1)

    def one_after_the_other(transport):
        times = []
        for victims in [(4, 0), (0, 1, 2), (2, 3, 4, 1)] * options.runs:
            times += go_on(options, transport, victims)
        return "from the error to the first right allreduce: " + quantiles(times)

    def meanwhile(transport):
        for number in range(8 * options.runs):
            dies_meanwhile(options, transport, options.seed + number)
        return f"{8 * options.runs} jobs"

    transports = options.transports
    run_cases([(f"deaths while they agree over {t}", lambda t=t: meanwhile(t)) for t in transports] +
              [(f"three go on without a silent one over {t}", lambda t=t: silent(options, t, 4, [3], True)) for t in transports] +
              # Others hear of rank 1 by it: some of these later, and they hold memory of those who have heard.
              [(f"others go on without a silent rank between them over {t}", lambda t=t: silent(options, t, 12, [1], True, "sizes=4194304"))
               for t in transports] +
              [(f"half goes on with rank 0 over {t}", lambda t=t: silent(options, t, 4, [2, 3], True)) for t in transports] +
              [(f"the half without it does not over {t}", lambda t=t: silent(options, t, 4, [0, 1], False)) for t in transports] +
              [(f"one of two does not go on without a silent rank 0 over {t}", lambda t=t: silent(options, t, 2, [0], False))
               for t in transports] +
              [(f"some have left over {t}", lambda t=t: others_have_left(options, t)) for t in transports] +
              [(f"one does not call over {t}", lambda t=t: waits(options, t)) for t in transports], at_once=6,
              then=[(f"one death after the other over {t}", lambda t=t: one_after_the_other(t)) for t in transports])


main()
