"""`fabring doctor bench` on hosts made of network namespaces: with links shaped by tbf, one that lets nothing large
through, a rank that dies. What is slow is named; an even network gets no finding."""

import functools
import json
import os
import subprocess
import tempfile
import time

import harness
import hosts
from doctor import Doctor, bad, check, find, only, own_networks, run_named
from harness import arguments, require


def reshape(namespace, device, rate):
    hosts.command("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate,
                  "burst", "192kb", "limit", "1mb")


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
            require(text.startswith("<svg") and "host2 (rank 2)" in text and "0.012" in text,
                    "the picture does not show it")
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
    # A transport of its own, so that this is measured over libfabric's as well.
    transport = "fabric" if "fabric" in options.transports else "tcp"
    one_network = functools.partial(one_slow_card_of_one_network, transport=transport)
    one_network.__name__ = one_slow_card_of_one_network.__name__
    cases = [even, one_slow_link, one_slow_direction, one_slow_card, one_slow_routed_card, unrouted_card, one_network,
             below_expected, stuck, dies_meanwhile]
    run_named(options, cases, at_once=1)  # they measure


if __name__ == "__main__":
    main()
