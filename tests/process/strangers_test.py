"""Strangers at the ranks' ports, while they meet and while they run: silence, HTTP, TLS, noise, resets, one byte at a time.
The job must not notice, at the ports where libfabric itself listens either, which have cases of their own."""

import collections
import os
import random
import socket
import struct
import threading
import time

import harness
from harness import Failed, Job, arguments, cli, require, run_cases, status

TLS_HELLO = bytes.fromhex("16030100ca010000c60303") + bytes(range(32)) * 6
LISTEN = "0A"


def listening_ports(pid):
    """(address, port) pairs of the listening TCP sockets a process holds, from its table and its descriptors; none once it
    has ended."""
    found = set()
    try:
        inodes = harness.socket_inodes(pid)
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{pid}/net/{table}") as lines:
                for line in list(lines)[1:]:
                    fields = line.split()
                    if fields[3] == LISTEN and fields[9] in inodes:
                        found.add(("::1" if table == "tcp6" else "127.0.0.1", int(fields[1].split(":")[1], 16)))
    except OSError:
        return set()
    return found


class Strangers:
    """Visits the addresses that `targets()` gives over and over in threads until stopped. Counts what happened to its
    connections."""

    def __init__(self, targets, seed):
        self.targets = targets
        self.stop = threading.Event()
        self.counts = {}
        self.let_in = collections.Counter()  # by target
        self.lock = threading.Lock()
        self.known, self.looked = [], 0.0
        self.choose = random.Random(seed)
        self.threads = [threading.Thread(target=self._visit, args=(kind,), daemon=True)
                        for kind in (self.silent, self.http, self.tls, self.noise, self.reset, self.slow)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(10)

    def _current(self):
        """A look at every process is slow where the kernel's table is long; one for all threads is enough."""
        with self.lock:
            if time.monotonic() - self.looked > 0.05:
                self.known, self.looked = sorted(self.targets()), time.monotonic()
            return self.known

    def _visit(self, kind):
        while not self.stop.is_set():
            for target in self._current():
                try:
                    with socket.create_connection(target, timeout=1) as visitor:
                        with self.lock:
                            self.let_in[target] += 1
                        visitor.settimeout(0.3)
                        outcome = kind(visitor)
                except OSError as error:
                    outcome = type(error).__name__
                with self.lock:
                    key = f"{kind.__name__}: {outcome}"
                    self.counts[key] = self.counts.get(key, 0) + 1
            if self.stop.wait(0.01):
                return

    def visits(self):
        with self.lock:
            return sum(self.counts.values())

    def least_visits(self):
        """Of each kind; the slow one takes more than a second for each."""
        with self.lock:
            return min(sum(n for key, n in self.counts.items() if key.startswith(kind))
                       for kind in ("silent", "http", "tls", "noise", "reset", "slow"))

    @staticmethod
    def _answer(visitor):
        try:
            return "closed" if visitor.recv(4096) == b"" else "answered"
        except socket.timeout:
            return "waits"

    def silent(self, visitor):
        return self._answer(visitor)

    def http(self, visitor):
        visitor.sendall(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n")
        return self._answer(visitor)

    def tls(self, visitor):
        visitor.sendall(TLS_HELLO)
        return self._answer(visitor)

    def noise(self, visitor):
        visitor.sendall(self.choose.randbytes(self.choose.randint(1, 4096)))
        return self._answer(visitor)

    def reset(self, visitor):
        visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return "reset"

    def slow(self, visitor):
        for byte in b"FABRING-or-not":
            visitor.sendall(bytes([byte]))
            if self.stop.wait(0.1):
                break
        return self._answer(visitor)


def wait_until(condition, limit, what):
    limit *= harness.slowness
    deadline = time.monotonic() + limit
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {limit} s")
        pause.wait(0.005)


def meeting(options, transport, everywhere):
    """Rank 0 alone waits at its port while strangers come; then the others arrive. `everywhere`: they also visit every port
    that any rank opens meanwhile, as soon as it is open."""
    with Job(options.program, 3, transport) as job:
        job.start(0, ["loop steps=50 sizes=4,65536", "leave"])
        wait_until(lambda: listening_ports(job.ranks[0].process.pid), 5, "rank 0 listens")
        door = listening_ports(job.ranks[0].process.pid)

        def all_ports():
            return set().union(*(listening_ports(rank.process.pid) for rank in list(job.ranks)
                                 if rank.exit_code is None))

        with Strangers(all_ports if everywhere else lambda: door, options.seed) as strangers:
            wait_until(lambda: strangers.visits() >= 40, 20, "strangers")
            for rank in (1, 2):
                job.start(rank, ["loop steps=50 sizes=4,65536", "leave"])
            job.wait_event("ready", 15)
            job.expect_fine(15)
        return f"{strangers.visits()} visits"


def turned_away(options, job):
    """As the ranks count them."""
    return sum(rank["strangers"] for rank in status(options, job)["ranks"])


def run_beside(options, transport, choose_ports, counted=sum):
    """A running job: strangers at the chosen listening ports of all ranks. `counted`: how many a rank counts at least, of
    the visits to each of its ports."""
    with Job(options.program, 3, transport) as job:
        job.start_all(["loop steps=1 sizes=4", "serve"])
        job.wait_event("serving", 20)
        ports = [choose_ports(listening_ports(rank.process.pid), rank) for rank in job.ranks]
        targets = set().union(*ports)
        if not targets:
            return "no such port is open while they run"
        with Strangers(lambda: targets, options.seed) as strangers:
            line, rounds = "loop steps=20 sizes=4,65536,1048576", 0
            while strangers.least_visits() < 3 or rounds < 5:
                starts = [len(rank.events) for rank in job.ranks]
                for rank in job.ranks:
                    rank.say(line)
                for rank, start in zip(job.ranks, starts):
                    served = rank.wait_event("served", 20, lambda e: e["command"] == line, start)
                    require(served["exit"] == 0, f"rank {rank.number} failed beside strangers")
                rounds += 1
        if os.path.exists(cli(options)):  # it may be left out of a build
            least = sum(counted(strangers.let_in[port] for port in own) for own in ports)
            wait_until(lambda: turned_away(options, job) >= least, 10, f"{least} strangers are counted")
        for rank in job.ranks:
            rank.say("end")
        job.expect_fine(15)
        return f"{len(targets)} ports, {strangers.visits()} visits, {rounds} rounds"


def ours_over_fabric(ports, rank):
    """That of the control plane; and some of libfabric's, where it has one for each peer and names none of them."""
    return {port for port in ports if port not in libfabrics(ports, rank)}


def libfabrics(ports, rank):
    """Those that the transport's own description names."""
    report = "\n".join(rank.find("ready")["report"])
    return {(host, port) for host, port in ports if f":{port}" in report}


def main():
    options = arguments(__doc__, runs=1)
    cases = []
    for transport in options.transports:
        fabric = transport == "fabric"
        here = lambda everywhere, t=transport: meeting(options, t, everywhere)
        beside = lambda ports, counted=sum, t=transport: run_beside(options, t, ports, counted)
        cases.append((f"strangers at the door while ranks meet, {transport}", lambda h=here: h(False)))
        if not fabric:
            cases += [(f"strangers at every port while ranks meet, {transport}", lambda h=here: h(True)),
                      (f"strangers while ranks run, {transport}", lambda b=beside: b(lambda ports, rank: ports))]
        else:
            cases += [("strangers while ranks run, fabric, our ports", lambda b=beside: b(ours_over_fabric, min)),
                      ("strangers at every port while ranks meet, libfabric's too", lambda h=here: h(True)),
                      ("strangers while ranks run, libfabric's ports", lambda b=beside: b(libfabrics, lambda visits: 0))]
    run_cases([case for case in cases if options.only in case[0]] * options.runs, at_once=4)


main()
