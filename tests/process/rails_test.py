"""Several network cards per host (network namespaces, two or three shaped links each): right answers with one and two ranks a
host, unequal numbers of cards, both cards in use, a card that leads nowhere, one that is slow, and one that is cut or goes
silent, which is named with rank and host."""

import time

import harness
import hosts
from harness import Job, arguments, require, require_error, run_cases

RATE = "200mbit"
LOOP = "loop steps=20 sizes=4,65536,4194304,1048576"


def start(job, network, layout, commands, settings=None):
    hosts.start(job, network, layout, commands, {"FABRING_LOG": "info", **(settings or {})})


def said(rank, words):
    return any(words in line for _, line in rank.log)


def carried(network, host):
    return [network.carried(host, card) for card, *_ in network.ports(host)]


def right_answers(options, transport, cards, layout, used, settings=None):
    """`used`: the cards of host 0 that carry a fair part."""
    with hosts.Hosts(len(cards), cards=cards) as network:
        with Job(options.program, sum(layout), transport, settings or {}, network.address(0)) as job:
            start(job, network, layout, [LOOP, "leave"])
            job.expect_fine(60)
            parts = carried(network, 0)
            share = [part / sum(parts) for part in parts]
            for card, part in enumerate(share):
                if card in used:
                    require(part > 0.1, f"eth{card} carried only {part:.0%} of {sum(parts) >> 20} MiB")
                else:
                    require(part < 0.02, f"eth{card} carried {part:.0%} though it leads nowhere")
            require(len(cards[0]) == 1 or settings or said(job.ranks[0], "rails: eth0 10.78.0.1"), "the cards are not told")
            return "carried " + ", ".join(f"{part:.0%}" for part in share)


def one_network(options, transport, by_source):
    """Two cards of one network: the second can be used only where the kernel routes by the sender's address."""
    with hosts.Hosts(2, cards=[[RATE, RATE]] * 2, one_network=True) as network:
        for host in range(2 if by_source else 0):
            network.route_by_source(host)
        with Job(options.program, 2, transport, {}, network.address(0)) as job:
            start(job, network, (1, 1), [LOOP, "leave"])
            job.expect_fine(60)
            first, second = carried(network, 0)
            part = second / (first + second)
            require(part > 0.1 if by_source else part < 0.02, f"eth1 carried {part:.0%}")
            for rank in job.ranks:
                told = sum("warning" in line and "eth1 carries nothing" in line and "ip rule add from" in line for _, line in rank.log)
                require(told == (0 if by_source else 1), f"rank {rank.number} says {told} times that eth1 idles")
            return f"eth1 carried {part:.0%}"


def slow_card(options, transport):
    """A card of a tenth of the speed gets the part that suits it; the job goes at the speed of the others."""
    with hosts.Hosts(2, cards=[[RATE, "20mbit"]] * 2) as network:
        with Job(options.program, 2, transport, {}, network.address(0)) as job:
            start(job, network, (1, 1), ["loop steps=12 sizes=4194304", "leave"])
            job.expect_fine(60)
            fast, slow = carried(network, 0)
            require(slow < fast / 2, f"the slow card carried {slow >> 20} MiB, the other {fast >> 20} MiB")
            require(said(job.ranks[0], "rails: eth0"), "the cards are not told")
            return f"the slow card carried {slow / (fast + slow):.0%}"


def leads_nowhere(options, transport):
    """Both hosts have a second card of one network, and nothing comes through there."""
    with hosts.Hosts(2, cards=[[RATE, RATE]] * 2) as network:
        network.silence(1, 1)
        with Job(options.program, 2, transport, {"FABRING_SILENCE_TIMEOUT": "3"}, network.address(0)) as job:
            start(job, network, (1, 1), ["loop steps=24 sizes=4194304", "leave"])
            job.expect_fine(60)
            parts = carried(network, 0)
            require(parts[1] < sum(parts) / 50, f"a card that leads nowhere carried {parts[1]} bytes")
            require(any(said(rank, "is not used") and said(rank, "eth1") for rank in job.ranks), "nobody notes that eth1 leads nowhere")


def own_network_of_each_host(options, transport, alike):
    """As pods have it: a first card without neighbours, which routes, and a second one on a network that every host makes
    for itself, under the same number. `alike`: with the same address on each host."""
    with hosts.Hosts(2, cards=[[RATE, RATE]] * 2) as network:
        for host in range(2):
            network.change_address(host, 0, f"{network.address(host)}/32", route="10.78.0.0/24")
            network.change_address(host, 1, f"192.168.100.{1 if alike else host + 5}/24")
            network.silence(host, 1)
        with Job(options.program, 2, transport, {}, network.address(0)) as job:
            start(job, network, (1, 1), [LOOP, "leave"])
            job.expect_fine(60)
            first, second = carried(network, 0)
            require(second < first / 50, f"a card that leads nowhere carried {second} bytes")


def broken_card(options, transport, card, end):
    with hosts.Hosts(2, cards=[[RATE, RATE]] * 2) as network:
        settings = {"FABRING_SILENCE_TIMEOUT": str(3 * harness.slowness)}
        with Job(options.program, 2, transport, settings, network.address(0)) as job:
            start(job, network, (1, 1), ["loop steps=0 sizes=4194304"])
            job.wait_event("step", 20)
            deadline = time.monotonic() + 20 * harness.slowness
            while min(carried(network, 0)) < 4 << 20:  # nothing tells but the kernel's counters
                require(time.monotonic() < deadline, f"not all cards are in use: {carried(network, 0)}")
                with job.ranks[0].changed:
                    require(not job.ranks[0].changed.wait_for(lambda: job.ranks[0].exit_code is not None, 0.05), "ended")
            began = time.monotonic()
            if end == "cut":
                network.cut(1, card)
            else:
                network.silence(1, card)
            for rank in job.ranks:
                require(rank.wait_exit(25) == 3, f"rank {rank.number} ended with {rank.exit_code}")
            errors = [require_error(rank, "peer_lost") for rank in job.ranks]
            named = [error for error in errors if f"card eth{card}" in error["text"]]
            require(len(named) == 2, f"the card is not named: {errors}")
            for error in named:
                require(f"rank {error['rank']}" in error["text"], "the rank is not named")
                require("host0" in error["text"] and "host1" in error["text"], "the hosts are not named")
            return f"named after {max(rank.exit_time for rank in job.ranks) - began:.1f} s: {named[0]['text']}"


def swallowed_data(options, transport, allowed, attempts=None, no_way=False):
    """Data go by another card than the control plane, and nothing arrives there: the address is named after the silence allowed,
    also where the kernel (`attempts`: its net.ipv4.tcp_syn_retries) gives up sooner, or knows no way there."""
    with hosts.Hosts(2, cards=[[RATE, RATE]] * 2) as network:
        if no_way:
            network.take_way(0, 1, 1)
        else:
            network.swallow(0, 1, 1)
        if attempts:
            network.set_kernel(0, "tcp_syn_retries", attempts)
        silence = allowed * harness.slowness
        settings = {"FABRING_SILENCE_TIMEOUT": str(silence), "FABRING_INTERFACE": "eth1"}
        with Job(options.program, 2, transport, settings, network.address(0)) as job:
            began = time.monotonic()
            start(job, network, (1, 1), [LOOP, "leave"])
            for rank in job.ranks:
                require(rank.wait_exit(allowed + 12) == 3, f"rank {rank.number} ended with {rank.exit_code}")
            errors = [require_error(rank, "peer_lost") for rank in job.ranks]
            for error in errors:
                for words in (f"{network.address(1, 1)}:", f"no answer for {silence:.1f} s", "No route to host" if no_way else "", "FABRING_INTERFACE"):
                    require(words in error["text"], f"'{words}' is not in the error: {errors}")
            first = min(rank.exit_time for rank in job.ranks) - began
            require(first >= silence, f"ended after {first:.1f} s")
            return errors[0]["text"]


def main():
    options = arguments(__doc__, runs=1, several_hosts=True)
    hosts.require_or_skip()
    two, one, three = [RATE, RATE], [RATE], [RATE, RATE, RATE]
    everything = [("2 hosts of 2 cards, 1 rank each", right_answers, [two, two], (1, 1), (0, 1)),
                  ("2 hosts of 2 cards, 2 ranks each", right_answers, [two, two], (2, 2), (0, 1)),
                  ("3 hosts of 3, 2 and 1 cards", right_answers, [three, two, one], (1, 1, 1), (0, 1)),
                  ("FABRING_RAILS=1", right_answers, [two, two], (1, 1), (0,), {"FABRING_RAILS": "1"}),
                  ("two cards of one network", one_network, False),
                  ("two cards of one network, routed by source", one_network, True),
                  ("a slow card", slow_card),
                  ("a card that leads nowhere", leads_nowhere),
                  ("a network that each host has for itself", own_network_of_each_host, False),
                  ("a network that each host has for itself, with one address", own_network_of_each_host, True),
                  ("a card is cut", broken_card, 1, "cut"),
                  ("a card goes silent", broken_card, 1, "silent"),
                  ("a card that swallows all data", swallowed_data, 3),
                  ("a card that swallows all data, and a kernel that soon gives up", swallowed_data, 8, 1),
                  ("a card by which there is no way", swallowed_data, 3, None, True)]
    # The short form: all over the first transport, of the others what depends on them.
    for_others = ("2 hosts of 2 cards, 1 rank each", "two cards of one network, routed by source", "a card that leads nowhere", "a card goes silent",
                  "a network that each host has for itself")
    # Over fabric it is libfabric that finds out when nothing arrives, at its own time; "goes silent" is tried there.
    cases = [(f"{name}, {transport}", lambda f=function, t=transport, m=more: f(options, t, *m))
             for i, transport in enumerate(options.transports) for name, function, *more in everything
             if (options.runs > 1 or options.only or i == 0 or (transport == "fabric" and name in for_others)) and
             not (transport == "fabric" and function is swallowed_data)]
    cases = cases * options.runs
    run_cases([case for case in cases if options.only in case[0]], at_once=6)


main()
