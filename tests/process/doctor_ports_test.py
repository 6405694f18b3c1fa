"""`fabring doctor net` at every port that a job would use: on each network card and at libfabric's own, one of which is cut off while
the others work; and ranks whose clock or version is another, with a clock that is really shifted and a program that really is of
another version."""

import os
import shutil
import subprocess
import tempfile

import hosts
from doctor import Doctor, bad, check, find, only
from harness import arguments, require, run_cases

TWO_CARDS = [["1gbit", "1gbit"]] * 3
LIBFABRIC_PORTS = (31000, 31099)  # in the namespaces of the test, where nobody else listens
ONLY_THERE = {"FI_NET_PORT_LOW_RANGE": str(LIBFABRIC_PORTS[0]), "FI_NET_PORT_HIGH_RANGE": str(LIBFABRIC_PORTS[1]),
              "FI_TCP_PORT_LOW_RANGE": str(LIBFABRIC_PORTS[0]), "FI_TCP_PORT_HIGH_RANGE": str(LIBFABRIC_PORTS[1])}

PRELOADED = {"ASAN_OPTIONS": "verify_asan_link_order=0"}  # the program may be a sanitizer's build


def net(options, network, **more):
    return check(options, network, "net", **more)


def purposes(report, rank=0):
    return sorted((door["interface"], door["purpose"]) for door in report["ranks"][rank]["doors"])


def every_port(options, transport):
    """All are called at, in both directions, and nothing is wrong."""
    with hosts.Hosts(3, cards=TWO_CARDS) as network:
        report, code = net(options, network, settings={"all": {"FABRING_TRANSPORT": transport}})
        require(code == 0 and not bad(report), f"exit {code}: {report['findings']}")
        wanted = [("eth0", "control and data"), ("eth1", "data")]
        if transport != "tcp":
            wanted += [("eth0", "data over libfabric"), ("eth1", "data over libfabric")]
        for one in report["ranks"]:
            require(purposes(report, one["rank"]) == sorted(wanted), f"doors of rank {one['rank']}: {one['doors']}")
            for other in report["ranks"]:
                called = sorted(probe["door"] for probe in one["probes"] if probe["to"] == other["rank"])
                require(other is one or called == list(range(len(wanted))),
                        f"rank {one['rank']} has called rank {other['rank']} at {called} of {len(wanted)} doors")


def second_card_no_way(options):
    """One direction between the second cards of two hosts; the first cards work."""
    with hosts.Hosts(3, cards=TWO_CARDS) as network:
        hosts.ip("-n", network.namespace(1), "route", "add", "blackhole", network.address(2, 1) + "/32")
        report, code = net(options, network)
        require(code == 0, f"exit {code}, though a job leaves such a card out: {bad(report)}")
        find(report, "net.dropped", "rank 2 (host host2) -> rank 1 (host host1)", ["(eth1, for data)", "10.78.1.2"])
        require(all("eth1" in f["what"] for f in bad(report)), f"{bad(report)}")


def second_card_silent(options):
    """The second card of a host leads nowhere: all others say so, once, with card and address."""
    with hosts.Hosts(3, cards=TWO_CARDS) as network:
        network.silence(1, 1)
        report, code = net(options, network)
        require(code == 0, f"exit {code}, though a job leaves such a card out: {bad(report)}")
        find(report, "net.dropped", "host host1", ["no other host reaches it", "(eth1, for data)", "10.78.1.2"])
        require(not any("libfabric" in f["what"] for f in bad(report)), "what fails by TCP is said once")


def one_card_address_twice(options):
    with hosts.Hosts(3, cards=TWO_CARDS) as network:
        hosts.ip("-n", network.namespace(2), "addr", "del", "10.78.1.3/24", "dev", "eth1")
        hosts.ip("-n", network.namespace(2), "addr", "add", "10.78.1.2/24", "dev", "eth1")
        report, code = net(options, network)
        require(code == 0, f"exit {code}, though a job leaves such cards out: {bad(report)}")
        find(report, "net.address_twice", "", ["10.78.1.2", "host1", "host2"])


def libfabric_ports(options):
    """A firewall passes our ports and not those that libfabric listens at."""
    with hosts.Hosts(3) as network:
        first, last = LIBFABRIC_PORTS
        name = network.namespace(1)
        hosts.ip("-n", name, "rule", "add", "pref", "20", "lookup", "local")  # was the first: ours comes before it
        hosts.ip("-n", name, "rule", "del", "pref", "0")
        hosts.ip("-n", name, "rule", "add", "pref", "10", "iif", "eth0", "ipproto", "tcp", "dport", f"{first}-{last}", "blackhole")
        report, code = net(options, network, settings={"all": ONLY_THERE})
        require(code == 1, f"exit {code}: {report['findings']}")
        finding = find(report, "net.dropped", "host1", ["libfabric"])
        require(f":{first // 100}" in finding["what"], f"the port is not named: {finding['what']}")
        require(all("libfabric" in f["what"] for f in bad(report)), f"{bad(report)}")


def clock(options, shift_ms, word):
    """The wall clock of one host's doctor is shifted under it."""
    library = os.path.join(os.path.dirname(os.path.abspath(options.program)), "libshifted_clock.so")
    with hosts.Hosts(3) as network:
        shifted = {**PRELOADED, "LD_PRELOAD": library, "SHIFTED_CLOCK_MS": str(shift_ms)}
        report, code = net(options, network, settings={2: shifted})
        require(code == 0, f"exit {code}: {report['findings']}")
        find(report, "net.clock", "rank 2 (host host2)", [f"{abs(shift_ms) / 1000:.1f} s {word}"])
        only(report, "net.clock")


def small_skew(options):
    with hosts.Hosts(2) as network:
        library = os.path.join(os.path.dirname(os.path.abspath(options.program)), "libshifted_clock.so")
        report, code = net(options, network, settings={1: {**PRELOADED, "LD_PRELOAD": library, "SHIFTED_CLOCK_MS": "20"}})
        require(code == 0 and not bad(report), f"exit {code}: {report['findings']}")


def other_version(options):
    """A copy of the program, and of the library if it is one, in which the version is another."""
    fabring = os.path.realpath(os.path.join(os.path.dirname(options.program), "..", "..", "tools", "fabring"))
    version = subprocess.run([fabring, "--version"], capture_output=True, text=True, timeout=20).stdout.split()[-1]
    other = version[:-1] + ("8" if version[-1] != "8" else "7")
    with tempfile.TemporaryDirectory() as folder, hosts.Hosts(3) as network:
        copies = []
        for path in [fabring, *libraries(fabring)]:
            copy = os.path.join(folder, os.path.basename(path))
            shutil.copy(path, copy)
            with open(copy, "r+b") as file:
                content = file.read()
                file.seek(0)
                file.write(content.replace(version.encode() + b"\0", other.encode() + b"\0"))
            copies.append(copy)
        with Doctor(options, network, "net", settings={1: {"LD_LIBRARY_PATH": folder}}, timeout=8,
                    programs={1: copies[0]}) as doctor:
            report = doctor.report()
            require(doctor.code == 1, f"exit {doctor.code}: {report['findings']}")
            found = [f for f in bad(report) if version in f["what"] and other in f["what"]]
            require(found and "rank 1" in found[0]["what"] + found[0]["where"], f"{report['findings']}")
            return found[0]["what"]


def libraries(program):
    """The libfabring.so it was linked with, if any."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=20).stdout
    return [line.split("=>")[1].split()[0] for line in told.splitlines() if "libfabring" in line and "=>" in line]


def main():
    options = arguments(__doc__, runs=1, transports="fabric")
    hosts.require_or_skip()
    with_fabric = "fabric" in options.transports
    cases = [("every port, tcp", every_port, "tcp"),
             ("the second cards, one way", second_card_no_way),
             ("the second card leads nowhere", second_card_silent),
             ("one address on two hosts' second cards", one_card_address_twice),
             ("a clock that is ahead", clock, 3_600_000, "ahead of"),
             ("a clock that is behind", clock, -2_500, "behind"),
             ("clocks 20 ms apart", small_skew),
             ("another version", other_version)]
    if with_fabric:
        cases += [("every port, libfabric", every_port, "fabric,tcp"),
                  ("libfabric's ports are dropped", libfabric_ports)]
    run_cases([(name, lambda f=function, m=more: f(options, *m)) for name, function, *more in cases if options.only in name],
              at_once=3)


if __name__ == "__main__":
    main()
