"""`fabring doctor net` on hosts made of network namespaces, with faults that are made outside of them: routes, MTUs,
addresses, ranks that do not come, differ or die. Each is named; a healthy network gets no finding."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import harness
import hosts
from doctor import Doctor, bad, check, find, only, own_networks, run_named
from harness import Failed, arguments, free_port, require


def healthy(options):
    with hosts.Hosts(3) as network:
        with Doctor(options, network, "net") as doctor:
            report = doctor.report()
            require(doctor.code == 0 and not bad(report), f"exit {doctor.code}: {report['findings']}")
            require(report["seconds"] < 3 * harness.slowness, f"took {report['seconds']} s")
            require(doctor.codes() == [0, 0, 0], f"exit codes {doctor.codes()}")
            for one in report["ranks"]:
                doors = sum(len(other["doors"]) for other in report["ranks"] if other is not one)
                require(len(one["probes"]) == doors >= 2, f"rank {one['rank']} has not called at all {doors} doors of the others")


def healthy_v6(options):
    with hosts.Hosts(2, family=6) as network:
        report, code = check(options, network, "net")
        require(code == 0 and not bad(report), f"exit {code}: {report['findings']}")


def one_way_block(options):
    with hosts.Hosts(3) as network:
        hosts.ip("-n", network.namespace(1), "route", "add", "blackhole", network.address(2) + "/32")
        with Doctor(options, network, "net") as doctor:
            report = doctor.report()
            find(report, "net.no_route", "rank 1 (host host1) -> rank 2 (host host2)")
            find(report, "net.dropped", "rank 2 (host host2) -> rank 1 (host host1)")
            only(report, "net.no_route", "net.dropped")
            require(doctor.codes() == [1, 1, 1], f"exit codes {doctor.codes()}")


def unreachable_route(options):
    with hosts.Hosts(3) as network:
        hosts.ip("-n", network.namespace(2), "route", "add", "unreachable", network.address(1) + "/32")
        report, code = check(options, network, "net")
        require(code == 1, f"exit {code}")
        find(report, "net.no_route", "rank 2 (host host2) -> rank 1 (host host1)")
        find(report, "net.dropped", "rank 1 (host host1) -> rank 2 (host host2)")


def small_mtu_on_the_way(options):
    with hosts.Hosts(3) as network:
        for host in range(3):  # or packets of 64 KiB pass uncut through all of it
            hosts.ip("-n", network.namespace(host), "link", "set", "dev", "eth0", "gso_max_segs", "1")
        hosts.ip("-n", network.switch, "link", "set", "dev", "port1", "mtu", "1300")
        report, code = check(options, network, "net")
        require(code == 1, f"exit {code}")
        finding = find(report, "net.mtu", "host1")
        require("1448" in finding["what"] or "1500" in finding["what"], finding["what"])
        only(report, "net.mtu")
        require(all("host1" in f["where"] for f in bad(report)), f"{bad(report)}")


def mtus_differ(options):
    with hosts.Hosts(3) as network:
        hosts.ip("-n", network.namespace(2), "link", "set", "dev", "eth0", "mtu", "1400")
        report, code = check(options, network, "net")
        require(code == 0, f"exit {code}")
        find(report, "net.mtu_differs", "", ["1400", "rank 2 (host host2)"])
        only(report, "net.mtu_differs")


def second_interface(network, host, address):
    """A network of its own that leads nowhere."""
    name = network.namespace(host)
    hosts.ip("-n", name, "link", "add", "eth1", "type", "veth", "peer", "name", "eth2")
    hosts.ip("-n", name, "addr", "add", address, "dev", "eth1")
    for device in ("eth1", "eth2"):
        hosts.ip("-n", name, "link", "set", device, "up")


def wrong_interface(options):
    with hosts.Hosts(3) as network:
        second_interface(network, 1, "10.99.0.2/24")
        report, code = check(options, network, "net", settings={1: {"FABRING_INTERFACE": "eth1"}})
        require(code == 1, f"exit {code}")
        find(report, "net.no_route", "host host1", ["no other host reaches it", "10.99.0.2", "eth1", "data"])
        find(report, "net.interfaces", "", ["rank 1 (host host1)"])


def address_twice(options):
    """The address of one host is another's as well, which then calls itself."""
    with hosts.Hosts(3) as network:
        second_interface(network, 1, "10.99.0.2/24")
        for host in (0, 2):
            hosts.ip("-n", network.namespace(host), "addr", "add", "10.99.0.2/32", "dev", "lo")
        report, code = check(options, network, "net", settings={1: {"FABRING_INTERFACE": "eth1"}})
        require(code == 1, f"exit {code}")
        find(report, "net.refused", "host host1", ["no other host reaches it"])


def called(report, rank, interface):
    """What this rank found of the others' ports of our own on this card."""
    doors = {one["rank"]: one["doors"] for one in report["ranks"]}
    return [probe["result"] for probe in report["ranks"][rank]["probes"]
            if doors[probe["to"]][probe["door"]]["interface"] == interface
            and "libfabric" not in doors[probe["to"]][probe["door"]]["purpose"]]


def routed_cards(options):
    """Every address is a network of its own, as a job takes it: cards are joined by their order."""
    with hosts.Hosts(2, cards=[["1gbit", "1gbit"]] * 2) as network:
        own_networks(network)
        report, code = check(options, network, "net")
        require(code == 0 and not bad(report), f"exit {code}: {report['findings']}")
        require(all(called(report, rank, "eth1") == ["fine"] for rank in range(2)), "the second cards were not called at")


def a_routed_card_that_leads_nowhere(options):
    with hosts.Hosts(2, cards=[["1gbit", "1gbit"]] * 2) as network:
        own_networks(network)
        network.silence(1, 1)
        report, code = check(options, network, "net")
        require(code == 0, f"exit {code}: {report['findings']}")
        lost = [one for one in bad(report) if one["id"] in ("net.dropped", "net.no_route")]
        require(len(lost) == 2 and all("eth1" in one["what"] and "the other direction fails too" in one["what"] for one in lost), f"{report['findings']}")
        only(report, "net.dropped", "net.no_route")


def cards_of_one_network(options):
    """Without routing by source all leaves by the first: a job does without the second, and says what to do."""
    remedy = "ip route add 10.78.0.0/24 dev eth1 table 101; ip rule add from {} table 101"
    with hosts.Hosts(2, cards=[["1gbit", "1gbit"]] * 2, one_network=True) as network:
        report, code = check(options, network, "net")
        require(code == 0, f"exit {code}: {report['findings']}")
        for rank in range(2):
            finding = find(report, "net.unrouted", f"rank {rank} (host host{rank})", ["card eth1 carries nothing", network.address(rank, 1)])
            require(finding["severity"] == "warning" and remedy.format(network.address(rank, 1)) in finding["fix"], f"{finding}")
        only(report, "net.unrouted")
        require(len(bad(report)) == 2, f"{report['findings']}")
        alone = doctor_host(options, network, 1)
        finding = find(alone, "net.rails", "eth1", ["packets from 10.78.0.34", "leave by eth0"])
        require(finding["severity"] == "warning" and remedy.format(network.address(1, 1)) in finding["fix"], f"{finding}")
        network.route_by_source(0)  # rank 1 does not call by its second card, and answers who does
        report, code = check(options, network, "net")
        require(code == 0 and find(report, "net.unrouted", "rank 1 (host host1)", ["card eth1"]), f"exit {code}: {report['findings']}")
        only(report, "net.unrouted")
        require(len(bad(report)) == 1, f"{report['findings']}")
        network.route_by_source(1)
        report, code = check(options, network, "net")
        require(code == 0 and not bad(report), f"exit {code}: {report['findings']}")
        require(not [one for one in bad(doctor_host(options, network, 1)) if one["id"] == "net.rails"], "doctor host warns still")


def doctor_host(options, network, host):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FABRING_")}
    done = subprocess.run([*network.command_prefix(host), harness.cli(options), "doctor", "host", "--json"],
                          env={**environment, "FABRING_MASTER_ADDR": network.address(0)}, capture_output=True, text=True, timeout=30 * harness.slowness)
    return json.loads(done.stdout)


def labelled_address(options):
    """A label stands in place of the interface's name where addresses are listed."""
    with hosts.Hosts(2, cards=[["1gbit", "1gbit"]] * 2) as network:
        for host in range(2):
            network.change_address(host, 1, f"{network.address(host, 1)}/24", label="eth1:data")
        for settings in ({}, {"FABRING_INTERFACE": "eth0,eth1:data"}):
            report, code = check(options, network, "net", settings={"all": settings})
            require(code == 0 and not bad(report), f"exit {code}: {report['findings']}")
            require(all(called(report, rank, "eth1") == ["fine"] for rank in range(2)), f"eth1 was not called at with {settings}")


def missing_rank(options):
    with hosts.Hosts(3) as network:
        with Doctor(options, network, "net", skip=(2,), timeout=6, meet_in=3) as doctor:
            report = doctor.report()
            find(report, "net.rendezvous", "", ["rank 2"])
            require(doctor.code == 1 and doctor.took < 8 * harness.slowness, f"exit {doctor.code} after {doctor.took:.1f} s")


def late_rank(options):
    """Ranks wait for it as those of a job do, however short the time is for what follows."""
    with hosts.Hosts(3) as network:
        with Doctor(options, network, "net", skip=(2,), timeout=8) as doctor:
            for line in doctor.ranks[0].stderr:  # after 5 s, as a job's ranks say it
                if "still waiting for rank 2" in line:
                    break
            else:
                raise Failed(f"rank 0 did not wait for rank 2: {doctor.ranks[0].stdout.read()}")
            doctor.start(2)
            report = doctor.report()
            require(doctor.code == 0 and not bad(report), f"exit {doctor.code}: {report['findings']}")
            require(doctor.codes() == [0, 0, 0], f"exit codes {doctor.codes()}")


def killed_rank(options):
    """Once all have met and while calls still wait: all that are left end as rank 0 does."""
    with hosts.Hosts(4) as network:
        hosts.ip("-n", network.namespace(1), "neigh", "replace", network.address(3), "lladdr", "02:00:00:00:00:99",
                 "dev", "eth0", "nud", "permanent")  # what it sends there arrives nowhere, so that calls last
        with Doctor(options, network, "net", timeout=15) as doctor:
            deadline = time.monotonic() + 15 * harness.slowness
            while not subprocess.run(["ip", "netns", "exec", network.namespace(2), "ss", "-Htln"],
                                     capture_output=True, text=True).stdout:  # who listens has met the others
                require(time.monotonic() < deadline, "it opens no port")
            doctor.ranks[2].kill()
            report = doctor.report()
            find(report, "net.lost", "rank 2")
            require(doctor.codes() == [1, 1, -signal.SIGKILL, 1], f"exit codes {doctor.codes()}")


def a_setting_that_one_rank_cannot_read(options):
    with hosts.Hosts(2) as network:
        with Doctor(options, network, "net", settings={1: {"FABRING_DEPTH": "x"}}, meet_in=2) as doctor:
            doctor.report()
            require(doctor.codes() == [1, 1], f"exit codes {doctor.codes()}")


def stopped_rank(options):
    """Stopped wherever it is just then: what it has not told is not fine."""
    with hosts.Hosts(3) as network:
        with Doctor(options, network, "net", timeout=8, meet_in=4) as doctor:
            os.kill(doctor.ranks[2].pid, signal.SIGSTOP)
            report = doctor.report()
            require(doctor.took < 10 * harness.slowness, f"took {doctor.took:.1f} s")
            require(doctor.code in (1, 3), f"exit {doctor.code}")
            require(any("rank 2" in f["what"] + f["where"] for f in report["findings"]), f"{report['findings']}")


def settings_differ(options):
    with hosts.Hosts(3) as network:
        report, code = check(options, network, "net", settings={1: {"FABRING_TRANSPORT": "tcp"}})
        require(code == 1, f"exit {code}")
        find(report, "net.settings", "", ["FABRING_TRANSPORT", "tcp on rank 1 (host host1)"])
        only(report, "net.settings")


def other_provider(options):
    """Such a job goes by sockets; nobody takes libfabric's ports of one provider for a fault of another's."""
    with hosts.Hosts(3) as network:
        report, code = check(options, network, "net", settings={1: {"FABRING_PROVIDER": "tcp;ofi_rxm"}})
        require(code == 0, f"exit {code}: {bad(report)}")
        only(report, "net.settings")


def other_secret(options):
    with hosts.Hosts(2) as network, tempfile.TemporaryDirectory() as folder:
        settings = {}
        for rank in range(2):
            path = os.path.join(folder, str(rank))
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
                out.write(f"a secret of its own {rank}\n")
            settings[rank] = {"FABRING_SECRET_FILE": path}
        report, code = check(options, network, "net", settings=settings, timeout=6, meet_in=3)
        require(code == 1, f"exit {code}")
        find(report, "net.mismatch", "", ["secret"])


def wrong_master(options):
    """Another service holds the meeting point; rank 0 says so, and who."""
    with hosts.Hosts(2) as network:
        port = str(free_port())
        holder = subprocess.Popen([*network.command_prefix(0), sys.executable, "-c",
                                   "import socket, sys\ns = socket.create_server(('0.0.0.0', int(sys.argv[1])))\n"
                                   "print('ready', flush=True)\nsys.stdin.read()", port],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            require(holder.stdout.readline() == "ready\n", "the other service did not start")
            report, code = check(options, network, "net", settings={"all": {"FABRING_MASTER_PORT": port}}, timeout=6)
            require(code == 1, f"exit {code}")
            find(report, "net.rendezvous", "", [port])
        finally:
            holder.kill()
            holder.communicate()


def main():
    options = arguments(__doc__, runs=1)
    hosts.require_or_skip()
    cases = [healthy, healthy_v6, one_way_block, unreachable_route, small_mtu_on_the_way, mtus_differ, wrong_interface,
             address_twice, routed_cards, a_routed_card_that_leads_nowhere, cards_of_one_network, labelled_address,
             missing_rank, late_rank, killed_rank, a_setting_that_one_rank_cannot_read, stopped_rank, settings_differ,
             other_provider, other_secret, wrong_master]
    run_named(options, cases, at_once=3)


if __name__ == "__main__":
    main()
