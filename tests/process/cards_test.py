"""Network cards that move bytes themselves, as a provider of libfabric states them (one made up for tests, over TCP; hosts are
network namespaces): every rank prices by the same number and speed of cards, whatever each host's say, and measures no links."""

import re

import harness
import hosts
from harness import Job, arguments, require, run_cases

GBIT = 10**9


def machine_lines(job):
    lines = [[text for _, text in rank.log if " machine: " in text] for rank in job.ranks]
    require(all(len(of_rank) == 1 for of_rank in lines), f"a rank does not say which machine it takes: {lines}")
    # The hosts of these tests are namespaces, which share the cores of one.
    return [re.sub(r".* machine: |; a node has [0-9.]+ of a core$", "", of_rank[0].strip()) for of_rank in lines]


def stated(options, cards, layout, bits, expected, settings=None):
    """`bits`: what the cards of each host say of themselves."""
    with hosts.Hosts(len(layout), cards=[["200mbit"] * number for number in cards]) as network:
        wanted = {"FABRING_PROVIDER": "verbs", "FABRING_LOG": "info", **(settings or {})}
        with Job(options.program, sum(layout), "shm,fabric", wanted, network.address(0)) as job:
            for rank, host in enumerate(hosts.placement(layout)):
                job.start(rank, ["loop steps=6 sizes=4,65536,1048576", "leave"],
                          {"STATED_BITS_PER_SECOND": str(bits[host])}, prefix=network.command_prefix(host))
            job.expect_fine(60)
            machines = machine_lines(job)
            require(set(machines) == {expected}, f"expected '{expected}', not {machines}")
            log = [text for rank in job.ranks for _, text in rank.log]
            require(not any("with links of" in text for text in log), "links were measured")
            require(any("priced for this machine, probed" in text for text in log), "messages were not measured")
            return machines[0]


def main():
    options = arguments(__doc__, runs=1, several_hosts=True)
    hosts.require_or_skip()
    shared = ", between memory of hosts"
    cases = [("two cards, two ranks a host", (2, 2), (2, 2), (200 * GBIT, 200 * GBIT), f"verbs, 2 cards of 200 Gbit/s (as stated){shared}"),
             ("a host with slower cards", (1, 1), (1, 1), (200 * GBIT, 50 * GBIT), f"verbs, 1 card of 50 Gbit/s (as stated){shared}"),
             ("a host with fewer cards", (2, 1), (1, 2), (100 * GBIT, 100 * GBIT), f"verbs, 1 card of 100 Gbit/s (as stated){shared}"),
             # Then the kernel's word counts: 10 Gbit/s, of a veth.
             ("a host whose cards say nothing", (1, 1), (1, 1), (0, 400 * GBIT), f"verbs, 1 card of 10 Gbit/s (as stated){shared}"),
             ("a host whose cards say nonsense", (1, 1), (1, 1), (400 * GBIT, 2**64 - 1), f"verbs, 1 card of 10 Gbit/s (as stated){shared}")]
    run_cases([(name, lambda more=more: stated(options, *more)) for name, *more in cases if options.only in name], at_once=2)


main()
