"""Several "hosts" on one machine: a network namespace each, joined by a bridge in one more, links shaped by tbf. Names carry
our pid, so that tests side by side do not meet; what a killed test left behind is removed by the next."""

import itertools
import os
import re
import shutil
import subprocess
import sys

from harness import SKIP

networks = itertools.count()
CONFIGURATION = "/etc/netns"  # ip netns exec mounts <here>/<namespace>/hosts over /etc/hosts


class NotPossible(Exception):
    """Namespaces cannot be made here; the reason."""


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise NotPossible(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def ip(*words):
    return command("ip", *words)


def shape(namespace, device, rate):
    """A burst below one 64 KiB packet would make tbf split it and lose rate; far above, short runs ride on the burst."""
    command("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "192kb", "limit", "1mb")


def check_possible():
    if os.geteuid() != 0:
        raise NotPossible("needs root (CAP_NET_ADMIN) to make network namespaces")
    for tool in ("ip", "tc", "unshare"):
        if not shutil.which(tool):
            raise NotPossible(f"needs {tool} (packages iproute2, util-linux)")
    remove_stale()
    probe = f"fabt-{os.getpid()}-probe"
    try:
        ip("netns", "add", probe)
        ip("-n", probe, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        ip("-n", probe, "link", "add", "br0", "type", "bridge")
        shape(probe, "eth0", "1gbit")
    finally:
        remove(probe)


def require_or_skip(*programs):
    """Ends the test as skipped where there can be no hosts, or where one of these programs is not built."""
    try:
        check_possible()
        for program in programs:
            if not os.path.exists(program):
                raise NotPossible(f"needs the built command {program}")
    except NotPossible as reason:
        print(f"SKIPPED: {reason}")
        sys.exit(SKIP)


def placement(layout):
    """The host of each rank, where `layout` has the number of ranks of each host."""
    return [host for host, ranks in enumerate(layout) for _ in range(ranks)]


def start(job, network, layout, commands, settings=None):
    for rank, host in enumerate(placement(layout)):
        job.start(rank, commands, settings, prefix=network.command_prefix(host))


def remove(namespace):
    try:
        ip("netns", "del", namespace)
    except NotPossible:
        pass
    shutil.rmtree(os.path.join(CONFIGURATION, namespace), ignore_errors=True)


def remove_stale():
    """Namespaces of tests whose process is gone."""
    for line in ip("netns", "list").splitlines():
        match = re.match(r"fabt-(\d+)-", line)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            remove(line.split()[0])


class Hosts:
    """`count` hosts; a context manager. Family 4 gives 10.78.0.(i+1), family 6 only fd78::(i+1). `cards`: for each host the
    rates of its interfaces eth0, eth1, ...; interface c of all hosts is on a network of its own, 10.78.c.0/24, or, with
    `one_network`, all are on 10.78.0.0/24."""

    def __init__(self, count, rate="1gbit", family=4, cards=None, one_network=False):
        self.count, self.family, self.one_network = count, family, one_network
        self.cards = cards or [[rate]] * count
        self.name = f"fabt-{os.getpid()}-{next(networks)}"
        self.switch = f"{self.name}-switch"

    def namespace(self, host):
        return f"{self.name}-{host}"

    def address(self, host, card=0):
        if self.one_network:
            return f"10.78.0.{host + 1 + 32 * card}"
        return f"10.78.{card}.{host + 1}" if self.family == 4 else f"fd78{f':{card}' if card else ''}::{host + 1}"

    def ports(self, host):
        """(card, interface of the host, its other end in the switch, rate)"""
        return [(card, f"eth{card}", f"port{host}" if card == 0 else f"port{host}c{card}", rate)
                for card, rate in enumerate(self.cards[host])]

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for host in range(self.count):
            remove(self.namespace(host))
        remove(self.switch)

    def _make(self):
        ip("netns", "add", self.switch)
        for card in range(max(map(len, self.cards))):
            ip("-n", self.switch, "link", "add", f"br{card}", "type", "bridge")
            ip("-n", self.switch, "link", "set", f"br{card}", "up")
        for host in range(self.count):
            name = self.namespace(host)
            folder = os.path.join(CONFIGURATION, name)
            os.makedirs(folder)
            with open(os.path.join(folder, "hosts"), "w") as out:
                out.write("127.0.0.1 localhost\n")
            # No name server: names that are not in the file fail at once.
            with open(os.path.join(folder, "resolv.conf"), "w") as out:
                out.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            for card, device, port, rate in self.ports(host):
                ip("-n", name, "link", "add", device, "type", "veth", "peer", "name", port, "netns", self.switch)
                ip("-n", self.switch, "link", "set", port, "master", "br0" if self.one_network else f"br{card}", "up")
                prefix = f"{self.address(host, card)}/{24 if self.family == 4 else 64}"
                ip("-n", name, "addr", "add", prefix, "dev", device, *(["nodad"] if self.family == 6 else []))
                ip("-n", name, "link", "set", device, "up")
                shape(name, device, rate)
                shape(self.switch, port, rate)

    def route_by_source(self, host):
        """Rules for several cards of one network: each address answers and sends by its own card."""
        name = self.namespace(host)
        for key, value in (("arp_ignore", 1), ("arp_announce", 2)):
            self.set_kernel(host, f"conf/all/{key}", value)
        for card, device, *_ in self.ports(host):
            ip("-n", name, "route", "add", "10.78.0.0/24", "dev", device, "table", str(100 + card))
            ip("-n", name, "rule", "add", "from", self.address(host, card), "table", str(100 + card))

    def set_kernel(self, host, key, value):
        """As `sysctl net.ipv4.KEY=VALUE`, of this host only."""
        command("ip", "netns", "exec", self.namespace(host), "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{key}")

    def command_prefix(self, host):
        """What runs a program on this host, under a host name of its own; it keeps the process id."""
        return ["ip", "netns", "exec", self.namespace(host), "unshare", "--uts", "sh", "-c",
                f'hostname host{host}; exec "$@"', "_"]

    def add_name(self, host, name, address):
        with open(os.path.join(CONFIGURATION, self.namespace(host), "hosts"), "a") as out:
            out.write(f"{address} {name}\n")

    def change_name(self, host, name, address):
        """In place: the file itself is mounted."""
        path = os.path.join(CONFIGURATION, self.namespace(host), "hosts")
        with open(path) as lines:
            others = [line for line in lines if name not in line.split()]
        with open(path, "w") as out:
            out.write("".join(others) + f"{address} {name}\n")

    def add_address(self, host, address, card=0):
        """A further one, "fd78::1/64"; IPv6 at once, without asking whether somebody else has it."""
        ip("-n", self.namespace(host), "addr", "add", address, "dev", f"eth{card}", *(["nodad"] if ":" in address else []))

    def change_address(self, host, card, address, route=None, label=None):
        """The only one of this card from now on; `route`: a network behind it."""
        name, device = self.namespace(host), f"eth{card}"
        ip("-n", name, "addr", "flush", "dev", device)
        ip("-n", name, "addr", "add", address, "dev", device, *(["label", label] if label else []))
        if route:
            ip("-n", name, "route", "add", route, "dev", device)

    def rename_card(self, host, device):
        """Its interface has this name, and an address of its link too."""
        name = self.namespace(host)
        ip("-n", name, "link", "set", "eth0", "down")
        ip("-n", name, "link", "set", "eth0", "name", device)
        ip("-n", name, "link", "set", device, "up")
        ip("-n", name, "addr", "flush", "dev", device)
        for address in (self.address(host), f"fe80::78:{host + 1}"):
            ip("-n", name, "addr", "add", f"{address}/64", "dev", device, "nodad")

    def cut(self, host, card=0):
        ip("-n", self.namespace(host), "link", "set", f"eth{card}", "down")

    def silence(self, host, card):
        """As a switch that no longer forwards: both ends keep their carrier."""
        ip("-n", self.switch, "link", "set", f"port{host}" if card == 0 else f"port{host}c{card}", "nomaster")

    def forward(self, host, card=0):
        """As before `silence`."""
        ip("-n", self.switch, "link", "set", f"port{host}" if card == 0 else f"port{host}c{card}", "master", "br0" if self.one_network else f"br{card}")

    def reset(self, host):
        """Ends the connections of this host that have keepalive (ours; libfabric's have none) and are idle with a reset, as a firewall does it. How many there were."""
        lines = command("ip", "netns", "exec", self.namespace(host), "ss", "-Htno", "state", "established").splitlines()
        ports = [line.split()[2].rsplit(":", 1)[1] for line in lines if "keepalive" in line]
        if not ports:
            return 0
        return len(command("ip", "netns", "exec", self.namespace(host), "ss", "-HtK", " or ".join(f"sport = :{port}" for port in ports)).splitlines())

    def swallow(self, host, other, card):
        """What `host` sends to `other` by this card goes to a machine that there is not, so nobody refuses it: as with a firewall."""
        ip("-n", self.namespace(host), "neigh", "replace", self.address(other, card), "lladdr", "02:00:00:00:00:99", "dev", f"eth{card}", "nud", "permanent")

    def take_way(self, host, other, card):
        """The kernel of `host` says at once that it has no way to `other` by this card, as it does after 3 s without a neighbour."""
        ip("-n", self.namespace(host), "route", "add", "unreachable", self.address(other, card))

    def carried(self, host, card):
        """Bytes that this interface has sent."""
        path = f"/sys/class/net/eth{card}/statistics/tx_bytes"
        return int(command("ip", "netns", "exec", self.namespace(host), "cat", path))
