"""`fabring doctor net` and `doctor bench` on hosts made of network namespaces, with faults that are made outside of them: routes,
MTUs, addresses, links shaped by tbf, ranks that do not come, differ or die. Each is named; a healthy network gets no finding."""

import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import harness
import hosts
from harness import Failed, arguments, free_port, require, run_cases


class Doctor:
    """One rank of `fabring doctor PART` on each host; rank 0's report."""

    def __init__(self, options, network, part, words=(), settings=None, skip=(), timeout=15,
                 programs=None, meet_in=None):
        self.options, self.network, self.ranks = options, network, {}
        self.began = time.monotonic()
        self.limit = timeout
        common = {k: v for k, v in os.environ.items() if not k.startswith("FABRING_")}
        common.update({
            "FABRING_WORLD_SIZE": str(network.count),
            "FABRING_MASTER_ADDR": network.address(0),
            "FABRING_MASTER_PORT": str(free_port()),
            "FABRING_JOB_ID": f"test-{random.SystemRandom().randrange(1 << 48):x}",
            "IPATH_NO_BACKTRACE": "1",
        })
        if meet_in is not None:
            common["FABRING_RENDEZVOUS_TIMEOUT"] = f"{int(1000 * meet_in * harness.slowness)}ms"
        cli = os.path.join(os.path.dirname(options.program), "..", "..", "tools", "fabring")

        def start(rank):
            environment = {**common, "FABRING_RANK": str(rank), **(settings or {}).get(rank, {}), **(settings or {}).get("all", {})}
            self.ranks[rank] = subprocess.Popen(
                [*network.command_prefix(rank), (programs or {}).get(rank, cli), "doctor", part, "--json", "--timeout", str(timeout * harness.slowness), *words],
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

        self.start = start
        for rank in range(network.count):
            if rank not in skip:
                start(rank)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.ranks.values():
            process.kill()
            process.communicate()

    def report(self):
        """What rank 0 says; also how long it took and how all ended."""
        try:
            out, err = self.ranks[0].communicate(timeout=(self.limit + 10) * harness.slowness)
        except subprocess.TimeoutExpired:
            raise Failed("rank 0 of doctor runs past its own --timeout") from None
        self.took = time.monotonic() - self.began
        self.code = self.ranks[0].returncode
        try:
            return json.loads(out)
        except ValueError:
            raise Failed(f"rank 0 ended with {self.code} and no report: {out}{err}") from None

    def codes(self):
        """Of all ranks, once they have ended by themselves."""
        return [process.wait(timeout=15 * harness.slowness) for process in self.ranks.values()]


def check(options, network, part, **more):
    with Doctor(options, network, part, **more) as doctor:
        return doctor.report(), doctor.code


def bad(report):
    return [f for f in report["findings"] if f["severity"] in ("critical", "warning")]


def find(report, identity, where="", words=()):
    """A finding with this id about this place; every critical one must have it too."""
    for finding in report["findings"]:
        if finding["id"] == identity and where in finding["where"] and all(word in finding["what"] for word in words):
            return finding
    raise Failed(f"no {identity} about '{where}' with {words} in {json.dumps(report['findings'], indent=1)}")


def only(report, *identities):
    others = [f for f in bad(report) if f["id"] not in identities]
    require(not others, f"findings that are no cause: {json.dumps(others, indent=1)}")


def reshape(namespace, device, rate):
    hosts.command("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "192kb",
                  "limit", "1mb")


# ---- net

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


def own_networks(network):
    """As in a routed fabric: each card has a network of its own, and a route to the others' on its side."""
    for host in range(network.count):
        for card, *_ in network.ports(host):
            network.change_address(host, card, f"{network.address(host, card)}/32", route=f"10.78.{card}.0/24")


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
        for host in range(2):
            network.route_by_source(host)
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


# ---- bench

def even(options):
    with hosts.Hosts(4) as network:
        report, code = check(options, network, "bench", timeout=30)
        require(code == 0 and not bad(report), f"exit {code}: {json.dumps(report, indent=1)}")
        rates = [rate for row in report["GBps"] for rate in row if rate]
        require(len(rates) == 12 and max(rates) < 0.2, f"1 Gbit/s is not {sorted(rates)} GB/s")
        return f"{min(rates):.3f} to {max(rates):.3f} GB/s in {report['seconds']:.1f} s"


def one_slow_link(options):
    with hosts.Hosts(4) as network, tempfile.TemporaryDirectory() as folder:
        reshape(network.namespace(2), "eth0", "100mbit")
        reshape(network.switch, "port2", "100mbit")
        picture = os.path.join(folder, "links.svg")
        with Doctor(options, network, "bench", ["--svg", picture], timeout=60) as doctor:
            report = doctor.report()
            require(doctor.took < 30 * harness.slowness, f"took {doctor.took:.1f} s")
            finding = find(report, "bench.slow_node", "host2 (rank 2)", ["in both directions"])
            require(finding["severity"] == "critical" and doctor.code == 1, f"{finding}, exit {doctor.code}")
            only(report, "bench.slow_node")
            with open(picture) as drawn:
                text = drawn.read()
            require(text.startswith("<svg") and "host2 (rank 2)" in text and "0.012" in text, "the picture does not show it")
            return f"in {doctor.took:.1f} s"


def one_slow_direction(options):
    with hosts.Hosts(4) as network:
        reshape(network.namespace(1), "eth0", "100mbit")
        report, code = check(options, network, "bench", timeout=30)
        require(code == 1, f"exit {code}")
        find(report, "bench.slow_direction", "host1 (rank 1)", ["when it sends"])
        only(report, "bench.slow_direction")


def one_slow_card(options):
    """Three hosts of two cards; one card of host 1 has a tenth of the speed, which the other hides."""
    with hosts.Hosts(3, cards=[["1gbit", "1gbit"]] * 3) as network:
        reshape(network.namespace(1), "eth1", "100mbit")
        reshape(network.switch, "port1c1", "100mbit")
        report, code = check(options, network, "bench", timeout=50)
        require(code == 1, f"exit {code}: {json.dumps(report, indent=1)}")
        finding = find(report, "bench.slow_card", "host1 (rank 1), eth1", ["10.78.1.0/24"])
        require([one["card"] for one in report["cards"]] == ["eth0", "eth1"], f"measured {report['cards']}")
        return f"{finding['what']}, in {report['seconds']:.1f} s"


def one_slow_routed_card(options):
    with hosts.Hosts(2, cards=[["1gbit", "1gbit"]] * 2) as network:
        own_networks(network)
        reshape(network.namespace(1), "eth1", "100mbit")
        reshape(network.switch, "port1c1", "100mbit")
        report, code = check(options, network, "bench", timeout=50)
        require([one["card"] for one in report["cards"]] == ["eth0", "eth1"], f"measured {report['cards']}")
        require(code == 1, f"exit {code}: {json.dumps(report, indent=1)}")
        find(report, "bench.slow_card", "eth1")


def unrouted_card(options):
    """What was not measured apart is not fine."""
    with hosts.Hosts(2, cards=[["1gbit", "1gbit"]] * 2, one_network=True) as network:
        report, _ = check(options, network, "bench", timeout=50)
        finding = find(report, "bench.cards", "", ["not measured apart: eth1", "leave by another card"])
        require(finding["severity"] == "not_checked", f"{finding}")


def one_slow_card_of_one_network(options, transport):
    """Two cards of one network, told apart by routing by source: each is measured alone."""
    with hosts.Hosts(2, cards=[["1gbit", "1gbit"]] * 2, one_network=True) as network:
        for host in range(2):
            network.route_by_source(host)
        reshape(network.namespace(1), "eth1", "100mbit")
        reshape(network.switch, "port1c1", "100mbit")
        report, code = check(options, network, "bench", timeout=50, settings={"all": {"FABRING_TRANSPORT": transport}})
        require([one["card"] for one in report["cards"]] == ["eth0", "eth1"], f"measured {report['cards']}")
        require(code == 1, f"exit {code}: {json.dumps(report, indent=1)}")
        finding = find(report, "bench.slow_card", "eth1")
        return f"{finding['what']}, in {report['seconds']:.1f} s"


def below_expected(options):
    with hosts.Hosts(2, rate="100mbit") as network:
        report, code = check(options, network, "bench", words=["--expect", "0.125"], timeout=30)
        require(code == 0, f"exit {code}")
        find(report, "bench.below_expected", "", ["0.125", "--expect"])


def stuck(options):
    """Small messages pass, large ones do not: the measurement ends all the same, in time, and says so."""
    with hosts.Hosts(2) as network:
        for host in range(2):
            hosts.ip("-n", network.namespace(host), "link", "set", "dev", "eth0", "gso_max_segs", "1")
        hosts.ip("-n", network.switch, "link", "set", "dev", "port1", "mtu", "1300")
        with Doctor(options, network, "bench", timeout=10) as doctor:
            report = doctor.report()
            require(doctor.took < 16 * harness.slowness, f"took {doctor.took:.1f} s")
            require(doctor.code == 1, f"exit {doctor.code}")
            require({"bench.stuck", "bench.start"} & {f["id"] for f in report["findings"]}, f"{report['findings']}")


def dies_meanwhile(options):
    with hosts.Hosts(3) as network:
        with Doctor(options, network, "bench", ["--measure-ms", "60000"], timeout=25) as doctor:
            # Measuring: it has connections of a job, and both sides are busy with them.
            deadline = time.monotonic() + 15 * harness.slowness
            while "ESTAB" not in subprocess.run(["ip", "netns", "exec", network.namespace(2), "ss", "-Htn"],
                                                capture_output=True, text=True).stdout:
                require(time.monotonic() < deadline, "no connection")
            doctor.ranks[2].kill()
            report = doctor.report()
            require(doctor.took < 30 * harness.slowness, f"took {doctor.took:.1f} s")
            require(doctor.code == 1, f"exit {doctor.code}")
            require(any("rank 2" in f["what"] for f in report["findings"] if f["id"] in ("bench.lost", "bench.start")),
                    f"{report['findings']}")


def main():
    options = arguments(__doc__, runs=1)
    hosts.require_or_skip()
    links = [healthy, healthy_v6, one_way_block, unreachable_route, small_mtu_on_the_way, mtus_differ, wrong_interface,
             address_twice, routed_cards, a_routed_card_that_leads_nowhere, cards_of_one_network, labelled_address, missing_rank, late_rank, killed_rank, a_setting_that_one_rank_cannot_read, stopped_rank, settings_differ, other_provider, other_secret, wrong_master]
    # A transport of its own, so that this is measured over libfabric's as well.
    one_network = functools.partial(one_slow_card_of_one_network, transport="fabric" if "fabric" in options.transports else "tcp")
    one_network.__name__ = "one_slow_card_of_one_network"
    rates = [even, one_slow_link, one_slow_direction, one_slow_card, one_slow_routed_card, unrouted_card, one_network, below_expected, stuck, dies_meanwhile]
    named = lambda cases: [(case.__name__.replace("_", " "), lambda c=case: c(options)) for case in cases
                           if options.only in case.__name__]
    # Bandwidths are measured one after the other, the rest side by side.
    measuring = threading.Lock()

    def alone(case):
        with measuring:
            return case()

    run_cases(named(links) + [(name, lambda c=case: alone(c)) for name, case in named(rates)], at_once=3)


if __name__ == "__main__":
    main()
