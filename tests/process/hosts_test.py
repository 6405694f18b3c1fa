"""Two, three and four hosts (network namespaces, shaped links, unequal ranks): right answers, the right nodes, IPv6 only, a
name with addresses of both families, one that resolves late or to an address that is gone, one that is loopback on rank 0's host, a link that is cut: both sides name the other and end after
FABRING_SILENCE_TIMEOUT; an outage that is shorter than that, and control connections that are reset, cost no rank."""

import itertools
import os
import signal
import time

import harness
import hosts
from harness import Job, arguments, require, require_error, run_cases
from hosts import placement, start

LAYOUTS = ((2, 1), (2, 1, 1), (1, 1, 1, 1), (3, 2))
ALGORITHMS = ("ring", "hierarchical", "auto")
LOOP = "loop steps=8 sizes=4,1024,65536,1048576,4194304"


def check_nodes(job, layout):
    for rank in job.ranks:
        nodes = rank.find("ready")["nodes"]
        require(nodes == placement(layout), f"rank {rank.number}: nodes are {nodes}, not {placement(layout)}")


def right_answers(options, transport, layout, algorithm, family=4):
    with hosts.Hosts(len(layout), family=family) as network:
        with Job(options.program, sum(layout), transport, {"FABRING_ALGORITHM": algorithm}, network.address(0)) as job:
            start(job, network, layout, [LOOP, "leave"])
            job.wait_event("ready", 20)
            check_nodes(job, layout)
            job.expect_fine(40)
            return "chose " + job.ranks[0].find("done")["algorithm"]


def late_name(options, transport):
    layout = (1, 1)
    with hosts.Hosts(2) as network:
        with Job(options.program, 2, transport, {}, "late.example") as job:
            start(job, network, layout, [LOOP, "leave"])
            for rank in job.ranks:
                rank.wait_event("begin", 10)
            # The name must fail at first: the event is that a lookup fails, which nobody reports; the hosts differ in when
            # they learn the name, which is what a lagging DNS does.
            with job.ranks[0].changed:
                job.ranks[0].changed.wait_for(lambda: job.ranks[0].exit_code is not None, 1.0)
            network.add_name(0, "late.example", network.address(0))
            with job.ranks[0].changed:
                job.ranks[0].changed.wait_for(lambda: job.ranks[0].exit_code is not None, 1.0)
            require(not any(rank.find("ready") for rank in job.ranks), "ready before the name was known to all")
            network.add_name(1, "late.example", network.address(0))
            job.expect_fine(30)


def stale_name(options, transport):
    """As DNS has it when rank 0's pod was started again: the name is first an address that is gone."""
    with hosts.Hosts(2) as network:
        for host in range(2):
            network.add_name(host, "moved.example", "10.78.0.99")
        with Job(options.program, 2, transport, {}, "moved.example") as job:
            start(job, network, (1, 1), [LOOP, "leave"])
            first = job.ranks[0]
            first.wait_log(["moved.example resolves to 10.78.0.99", "no address of this host", "waiting up to 30 s"], 10)
            with first.changed:
                first.changed.wait_for(lambda: first.exit_code is not None, 3.0)
            require(first.exit_code is None, "rank 0 did not wait for its name")
            for host in range(2):
                network.change_name(host, "moved.example", network.address(0))
            job.expect_fine(30)


def own_name_is_loopback(options, transport):
    """As Debian and Ubuntu install a host: it knows its own name as 127.0.1.1, others have its address."""
    layout = (2, 1)
    with hosts.Hosts(2) as network:
        network.add_name(0, "first.example", "127.0.1.1")
        network.add_name(1, "first.example", network.address(0))
        with Job(options.program, 3, transport, {}, "first.example") as job:
            start(job, network, layout, [LOOP, "leave"])
            job.wait_event("ready", 20)
            check_nodes(job, layout)
            job.expect_fine(40)


def name_of_both_families(options, transport):
    """A name with an IPv6 and an IPv4 address, and a host without IPv6: the others come by whichever answers first, and all
    have to end up with one."""
    layout = (1, 3, 1)
    with hosts.Hosts(3) as network:
        for host in range(2):
            network.add_address(host, f"fd78::{host + 1}/64")
        for host in range(3):
            network.add_name(host, "both.example", "fd78::1")
            network.add_name(host, "both.example", network.address(0))
        with Job(options.program, 5, transport, {}, "both.example") as job:
            start(job, network, layout, [LOOP, "leave"], {"FABRING_LOG": "info"})
            job.wait_event("ready", 20)
            check_nodes(job, layout)
            job.expect_fine(40)
            for rank in job.ranks:
                require(any(f"interface eth0 {network.address(placement(layout)[rank.number])}" in line for _, line in rank.log),
                        f"rank {rank.number} does not use IPv4")
            return "mixed" if any("several of its addresses" in line for _, line in job.ranks[0].log) else "all by one"


def master_of_the_link(options, transport):
    """The ranks meet at an address of the link, by interfaces that each host names otherwise; data have other addresses."""
    layout, devices = (2, 1), ("net0", "lan0")
    with hosts.Hosts(2, family=6) as network:
        for host, device in enumerate(devices):
            network.rename_card(host, device)
        with Job(options.program, 3, transport) as job:
            for rank, host in enumerate(placement(layout)):
                job.start(rank, [LOOP, "leave"], {"FABRING_MASTER_ADDR": f"fe80::78:1%{devices[host]}"}, prefix=network.command_prefix(host))
            job.wait_event("ready", 20)
            check_nodes(job, layout)
            job.expect_fine(40)


def hosts_that_look_alike(options, transport):
    """As virtual machines that go on from one image of memory: one boot id, one number of the network namespace."""
    layout = (2, 2)
    alike = os.path.join(os.path.dirname(os.path.abspath(options.program)), "libalike_hosts.so")
    with hosts.Hosts(2) as network:
        with Job(options.program, 4, transport, {}, network.address(0)) as job:
            start(job, network, layout, [LOOP, "leave"], {"LD_PRELOAD": alike, "ASAN_OPTIONS": "verify_asan_link_order=0"})
            job.wait_event("ready", 20)
            check_nodes(job, layout)
            for rank in job.ranks:
                require(not any("all ranks are on one host" in line for line in rank.find("ready")["report"]), f"rank {rank.number} prices one host")
            job.expect_fine(40)


def different_providers(options):
    """A host with another of libfabric's providers (on EC2: one without its EFA devices): the job goes by sockets and says
    whose provider is which."""
    with hosts.Hosts(2) as network:
        with Job(options.program, 2, "auto", {}, network.address(0)) as job:
            for rank, settings in enumerate(({}, {"FABRING_PROVIDER": "rxm"})):
                job.start(rank, [LOOP, "leave"], {"FABRING_LOG": "info", **settings}, prefix=network.command_prefix(rank))
            job.expect_fine(40)
            for rank in job.ranks:
                require(any("native TCP on rank 0 (host host0)" in line and "on rank 1 (host host1)" in line and "goes by tcp" in line
                            for _, line in rank.log), f"rank {rank.number} does not say why libfabric is not used")


def interface_that_is_down(options, transport):
    """The rank whose interface cannot work says so while the others have not even come."""
    with hosts.Hosts(2, cards=[["1gbit", "1gbit"]] * 2) as network:
        network.cut(1, 1)
        with Job(options.program, 2, transport, {}, network.address(0)) as job:
            rank = job.start(1, [LOOP, "leave"], {"FABRING_INTERFACE": "eth1"}, prefix=network.command_prefix(1))
            require(rank.wait_exit(15) == 3, f"ended with {rank.exit_code}")
            require_error(rank, "unavailable", words=(f"eth1 {network.address(1, 1)}: down", "FABRING_INTERFACE"))


def cut_link(options, transport):
    layout = (2, 1)
    with hosts.Hosts(2) as network:
        with Job(options.program, 3, transport, {"FABRING_SILENCE_TIMEOUT": "6"}, network.address(0)) as job:
            start(job, network, layout, ["loop steps=0 sizes=4,65536,4194304"])
            job.wait_event("step", 20)
            cut = time.monotonic()
            network.cut(1)
            named = [harness.named_after(rank, cut, *((2,) if rank.number < 2 else (0, 1))) for rank in job.ranks]
            ends = []
            for rank in job.ranks:
                require(rank.wait_exit(20) == 3, f"rank {rank.number} ended with {rank.exit_code}")
                ends.append(rank.exit_time - cut)
            # Each side has lost the ranks of the other: host 0 rank 2; host 1 the ranks 0 and 1, of which it names one.
            for rank in job.ranks[:2]:
                require_error(rank, "peer_lost", 2)
            error = require_error(job.ranks[2], "peer_lost")
            require(error["rank"] in (0, 1), f"rank 2 blames rank {error['rank']}")
            require(f"rank {error['rank']}" in error["text"], "the text does not name the rank")
            require(min(ends) >= 5 and max(ends) <= 6 + 4 * harness.slowness, f"ended {min(ends):.1f} to {max(ends):.1f} s after the cut")
            require(max(named) <= 5 * harness.slowness, f"named in every log only after {max(named):.1f} s")
            return f"named after {max(named):.1f} s, ended {min(ends):.1f} to {max(ends):.1f} s after the cut"


def lapse(job, seconds):
    """The length of an outage is what is tested; a rank that ends too early ends it too."""
    with job.ranks[0].changed:
        job.ranks[0].changed.wait_for(lambda: job.ranks[0].exit_code is not None, seconds)


def all_go_on(job, limit):
    counts = [len(rank.events) for rank in job.ranks]
    for rank, start in zip(job.ranks, counts):
        rank.wait_event("step", limit, start=start)
        require(not rank.errors(), f"rank {rank.number}: {rank.errors()}")


def outage(options, transport):
    """Shorter than FABRING_SILENCE_TIMEOUT, and such that the kernel of neither side sends again before that is over. How long
    it waits after that is known of reno; BBR takes the outage for a slow link, and may wait for more than a minute."""
    with hosts.Hosts(2) as network:
        for host in (0, 1):
            network.set_kernel(host, "tcp_congestion_control", "reno")
        with Job(options.program, 3, transport, {"FABRING_SILENCE_TIMEOUT": "12"}, network.address(0)) as job:
            start(job, network, (2, 1), ["loop steps=0 sizes=4,65536,1048576 every=5"])
            job.wait_event("step", 20)
            network.silence(1, 0)
            lapse(job, 8)
            network.forward(1)
            job.ranks[2].wait_log(("rank 0", "is back"), 4)
            all_go_on(job, 15)


def reset_until_back(network, host, rank):
    """Again where its connection was not idle, so that another was hit only."""
    def returns():
        return sum("is this rank's parent on the control plane now" in line for _, line in rank.log)

    before, end, hits = returns(), time.monotonic() + 10, 0
    while returns() == before:
        hits += network.reset(host)
        with rank.changed:
            rank.changed.wait_for(lambda: returns() > before or rank.exit_code is not None, 0.3)
        require(rank.exit_code is None and time.monotonic() < end, f"rank {rank.number} is not back after {hits} resets at host {host}")
        if hits == 0 and time.monotonic() > end - 5:
            raise harness.Skipped("this kernel ends no connections on request (CONFIG_INET_DIAG_DESTROY)")


def reset(options):
    """Of the control connections alone, at either end."""
    with hosts.Hosts(2) as network:
        with Job(options.program, 3, "fabric", {"FABRING_LOG": "info"}, network.address(0)) as job:
            start(job, network, (2, 1), ["loop steps=0 sizes=4,65536,1048576 every=5"])
            job.wait_event("step", 20)
            for host in (0, 1, 0):
                reset_until_back(network, host, job.ranks[2])
                all_go_on(job, 10)
            job.ranks[2].signal(signal.SIGKILL)  # and it is watched as before
            killed = time.monotonic()
            for rank in job.ranks[:2]:
                require(rank.wait_exit(5) == 3, f"rank {rank.number} ended with {rank.exit_code}")
                require_error(rank, "peer_lost", 2)
            return f"a kill after it named within {max(rank.exit_time for rank in job.ranks[:2]) - killed:.2f} s"


def main():
    options = arguments(__doc__, runs=1, several_hosts=True)
    if "fabric" in options.transports and "shm,tcp" in options.transports:
        options.transports.append("auto")
    hosts.require_or_skip()
    everything = list(itertools.product(LAYOUTS, ALGORITHMS, options.transports))
    # The short form: every layout over every transport, the algorithms in turn.
    short = [(layout, ALGORITHMS[(i + j) % 3], transport) for i, layout in enumerate(LAYOUTS)
             for j, transport in enumerate(options.transports)]
    cases = [(f"{'+'.join(map(str, layout))} ranks, {algorithm}, {transport}",
              lambda l=layout, a=algorithm, t=transport: right_answers(options, t, l, a))
             for layout, algorithm, transport in (short if options.runs == 1 else everything * (options.runs - 1))]
    for transport in options.transports:
        cases.append((f"a name of both families, {transport}", lambda t=transport: name_of_both_families(options, t)))
        cases += [(f"IPv6 only, {transport}", lambda t=transport: right_answers(options, t, (2, 1), "auto", family=6)),
                  (f"a cut link, {transport}", lambda t=transport: cut_link(options, t)),
                  (f"an outage, {transport}", lambda t=transport: outage(options, t)),
                  (f"a master of the link, {transport}", lambda t=transport: master_of_the_link(options, t)),
                  (f"hosts that look alike, {transport}", lambda t=transport: hosts_that_look_alike(options, t))]
    if "fabric" in options.transports:
        cases.append(("control connections that are reset", lambda: reset(options)))
    cases.append((f"an own name that is loopback, {options.transports[0]}", lambda: own_name_is_loopback(options, options.transports[0])))
    if "auto" in options.transports:
        cases.append(("different providers", lambda: different_providers(options)))
    cases.append((f"an interface that is down, {options.transports[0]}", lambda: interface_that_is_down(options, options.transports[0])))
    cases.append((f"a stale name, {options.transports[0]}", lambda: stale_name(options, options.transports[0])))
    cases.append((f"a late name, {options.transports[0]}", lambda: late_name(options, options.transports[0])))
    run_cases([case for case in cases if options.only in case[0]], at_once=3)


main()
