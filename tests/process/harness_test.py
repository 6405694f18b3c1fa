"""What the harness itself makes of what ranks say: whom a text names, and who is to blame for a start that failed."""

import contextlib
import io
import sys
import types

import harness

for text, named in (
    ("rank 2 (host b, pid 7) died", {2}),
    ("waited 3 s for rank 12 of 20 (19 came)", {12}),
    ("waited 3 s for ranks 1 and 3 of 6 (4 came)", {1, 3}),
    ("waited 3 s for ranks 1, 3 and 5-7 of 9 (4 came), for 3 s now", {1, 3, 5, 6, 7}),
    ("ranks 1, 3, 5-6, ... (100 ranks) of 200", {1, 3, 5, 6}),
    ("rank 0 (host a, pid 4) gave up: ranks 2-4 did not come", {0, 2, 3, 4}),
    ("rank 1, 300 ms ago", {1}),
    ("no rank, FABRING_RANK=3, 4 ranks", set()),
):
    if harness.ranks_named(text) != named:
        sys.exit(f"{text!r} names {harness.ranks_named(text)}, not {named}")


def said(number, code, about, text, seconds=1.0, host="a"):
    """A rank that has ended so, after the kill at 0."""
    error = {"event": "error", "code": code, "rank": about, "text": text, "host": host}
    return types.SimpleNamespace(number=number, exit_code=3, exit_time=seconds, errors=lambda: [error], wait_exit=lambda limit: 3)


def verdict(*ranks, slowness=1.0):
    """On the last of them, where rank 1 was killed: what it is about, whether it is at second hand, or what is wrong."""
    job = types.SimpleNamespace(others=lambda *numbers: [rank for rank in ranks if rank.number not in numbers], settings={})
    harness.slowness = slowness
    harness.limit_start(job)
    try:
        _, second_hand = harness.require_error_of_start(job, ranks[-1], 1, 0.0, 2.0)
    except harness.Failed as failed:
        return str(failed)
    return "second hand" if second_hand else "named", job.settings["FABRING_RENDEZVOUS_TIMEOUT"]


accuser = said(0, "peer_lost", 1, "rank 1 (host a, pid 5) died")
other = said(0, "peer_lost", 3, "rank 3 (host a, pid 8) died")
named_late = said(2, "timeout", -1, "waited 3 s for ranks 1 and 3 of 6", 9.0)
for was, wanted in (
    (verdict(accuser), ("named", "3.0")),
    (verdict(said(2, "timeout", -1, "waited 3 s for ranks 1 and 3 of 6")), ("named", "3.0")),
    (verdict(named_late), "rank 2 took 9.000 s"),
    (verdict(named_late, slowness=2.0), ("named", "6.0")),
    (verdict(accuser, said(2, "peer_lost", 0, "rank 0 (host a, pid 4) died")), ("second hand", "3.0")),
    (verdict(other, said(2, "peer_lost", 0, "rank 0 (host a, pid 4) died")), "rank 0: the error is about rank 3, not 1"),
    (verdict(said(0, "peer_lost", 1, "rank 12 (host a, pid 5) died"), said(2, "peer_lost", 0, "rank 0 (host a, pid 4) died")),
     "rank 0: the text does not name rank 1"),
    (verdict(said(2, "peer_lost", 12, "rank 12 (host a, pid 4) died")), "rank 2: the text does not name rank 1"),
    (verdict(said(2, "internal", 1, "rank 1 died")), "rank 2: code internal and not peer_lost or timeout or unavailable"),
):
    if was != wanted:
        sys.exit(f"{was}, not {wanted}")


def names_its_host(text, host):
    try:
        harness.require_error(said(2, "peer_lost", 1, text, host=host), "peer_lost", 1)
    except harness.Failed:
        return False
    return True


for text, host, fits in (("rank 1 (host a, pid 5) died", "a", True), ("rank 1 (host a, pid 5) died", "", False),
                         ("rank 1 (host b, pid 5) died", "a", False), ("rank 1 died", "a", False)):
    if names_its_host(text, host) != fits:
        sys.exit(f"{text!r} on host {host!r}: its host is {'not ' if fits else ''}named")


def most_within(times):
    harness.slowness = 1.0
    try:
        harness.require_most_within(times, 1.0)
    except harness.Failed:
        return False
    return True


for times, fits in (([], True), ([5.0] * 9, True), ([0.1] * 6 + [5.0] * 4, True), ([0.1] * 4 + [5.0] * 6, False),
                    ([0.1] * 298 + [5.0] * 2, True), ([0.1] * 296 + [5.0] * 4, False)):
    if most_within(times) != fits:
        sys.exit(f"{harness.quantiles(times)}: most are {'not ' if fits else ''}within 1 s")


def skipped():
    raise harness.Skipped("not here")


def failed():
    raise harness.Failed("wrong")


def mistaken():
    return {}["memory"]


for outcomes, wanted, *words in (([str], 0), ([str, skipped], harness.SKIP), ([skipped, failed, str], 1, "FAILED  case 1", "wrong"),
                                 ([mistaken, str], 1, "FAILED  case 0", "in mistaken", "KeyError: 'memory'", "ok      case 1",
                                  "1 of 2 failed")):
    names, said_of_them = [outcome.__name__ for outcome in outcomes], io.StringIO()
    try:
        with contextlib.redirect_stdout(said_of_them):
            harness.run_cases([(f"case {number}", outcome) for number, outcome in enumerate(outcomes)])
    except SystemExit as end:
        if end.code != wanted:
            sys.exit(f"{names} ended with {end.code}, not {wanted}")
    for word in words:
        if word not in said_of_them.getvalue():
            sys.exit(f"{names}: {word!r} is not in {said_of_them.getvalue()}")

try:
    with contextlib.redirect_stdout(io.StringIO()):
        harness.run_cases([("first", str)], then=[("alone", failed)])
except SystemExit as end:
    if end.code != 1:
        sys.exit(f"a case that failed after the others ended with {end.code}")
