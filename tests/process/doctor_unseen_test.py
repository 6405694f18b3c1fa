"""Ten faults for `fabring doctor` that were thought up and written down, with what a right verdict has to name, before
anybody had looked at what doctor checks: docs/doctor.md keeps the score of that first run beside that of today. They come from
complaints of operators, not from the catalogue of the other tests, and each is made outside doctor: with real interfaces, limits,
mounts, routes and processes.

A fault counts as named when one finding (warning or critical) holds all the words asked for, and none does on the healthy
machine. Prints a line for each and the score; fails where one is missed, and on a critical finding where nothing is wrong."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import harness
import hosts
from cable import Cable
from harness import Failed, Job, require, until

SEVERITIES = ("warning", "critical")


def findings(report):
    """Every finding of a report as (severity, all its words), whatever the JSON around it looks like."""
    found = []
    if isinstance(report, dict):
        severity = [value for value in report.values() if value in SEVERITIES] if _flat(report) else []
        if severity:
            found.append((severity[0], json.dumps(report)))
        else:
            for value in report.values():
                found += findings(value)
    elif isinstance(report, list):
        for value in report:
            found += findings(value)
    return found


def _flat(report):
    return all(not isinstance(value, (dict, list)) or not any(isinstance(v, dict) for v in value) for value in report.values())


def holds(text, words):
    return all(re.search(word, text, re.IGNORECASE) for word in words)


class Doctor:
    """Runs parts of doctor, on one host or as ranks of several."""

    def __init__(self, options):
        self.options = options
        self.folder = tempfile.TemporaryDirectory(prefix="fabring-unseen-")

    def on_host(self, prefix=(), limits=""):
        """`doctor host`; `limits`: shell commands before it."""
        words = [*prefix, "sh", "-c", limits + 'exec "$@"', "_", self.options.fabring, "doctor", "host", "--json"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FABRING_")}
        done = subprocess.run(words, capture_output=True, text=True, timeout=30 * harness.slowness, env=environment)
        try:
            return findings(json.loads(done.stdout))
        except ValueError:
            raise Failed(f"exit {done.returncode}: {done.stdout[-400:]}{done.stderr[-800:]}") from None

    def on_ranks(self, part, network, settings=None):
        """`doctor net` or `doctor bench`, a rank on each host of the network; rank 0's report."""
        path = os.path.join(self.folder.name, f"{part}-{network.name}.json")
        common = {"FABRING_TRANSPORT": None, "FABRING_TIMEOUT": None}
        with Job(self.options.fabring, network.count, "auto", common, network.address(0)) as job:
            for rank in range(network.count):
                output = ["--output", path] if rank == 0 else []
                job.start(rank, ["doctor", part, "--json", "--timeout", "25", *output], settings(rank) if settings else None,
                          network.command_prefix(rank))
            job.wait_exit(90)
            try:
                with open(path) as text:
                    return findings(json.load(text))
            except (OSError, ValueError) as error:
                raise Failed(f"rank 0 left no report: {error}") from None

    def on_job(self, job):
        """`doctor hang`."""
        done = subprocess.run([self.options.fabring, "doctor", "hang", "--json", "--after", "1", job.settings["FABRING_JOB_ID"]],
                              capture_output=True, text=True, timeout=30 * harness.slowness)
        try:
            return findings(json.loads(done.stdout))
        except ValueError:
            raise Failed(f"exit {done.returncode}: {done.stdout[-400:]}{done.stderr[-800:]}") from None


# ---- the faults: each returns the findings, and stands beside what they have to name


def flapping_link(doctor):
    """A cable or a transceiver that loses contact: the link goes down and up a hundred times."""
    with hosts.Hosts(2) as network:
        with tempfile.NamedTemporaryFile("w", suffix=".ip") as batch:
            batch.write("link set port0 down\nlink set port0 up\n" * 100)
            batch.flush()
            hosts.ip("-n", network.switch, "-batch", batch.name)
        return doctor.on_host(network.command_prefix(0))


def small_socket_buffers(doctor):
    """A hardening guide that caps what TCP may buffer: no long or fast link can be filled."""
    with hosts.Hosts(2) as network:
        small = "".join(f"echo 4096 8192 16384 > /proc/sys/net/ipv4/{name}; " for name in ("tcp_rmem", "tcp_wmem"))
        hosts.command(*network.command_prefix(0), "sh", "-c", small)
        return doctor.on_host(network.command_prefix(0))


def limited_address_space(doctor):
    """A batch system that limits a job's memory by its address space: registering or mapping buffers fails late."""
    return doctor.on_host(limits="ulimit -v 2000000; ")


def read_only_shm(doctor):
    """A hardened container: /dev/shm is there and large, and nobody may write to it."""
    mount = "mount -t tmpfs -o ro,size=1g,mode=1777 none /dev/shm; "
    return doctor.on_host(["unshare", "-m"], mount)


def route_into_a_container_network(doctor):
    """Host 1 has a container bridge whose network holds the address of host 2."""
    with hosts.Hosts(3) as network:
        hosts.ip("-n", network.namespace(2), "addr", "del", "10.78.0.3/24", "dev", "eth0")
        hosts.ip("-n", network.namespace(2), "addr", "add", "10.78.0.35/24", "dev", "eth0")
        hosts.ip("-n", network.namespace(1), "link", "add", "docker0", "type", "bridge")
        hosts.ip("-n", network.namespace(1), "addr", "add", "10.78.0.33/27", "dev", "docker0")
        hosts.ip("-n", network.namespace(1), "link", "set", "docker0", "up")
        return doctor.on_ranks("net", network)


def one_address_twice(doctor):
    """A cloned machine: on the second network hosts 1 and 2 have the same address. The first network is fine."""
    with hosts.Hosts(3, cards=[["1gbit", "1gbit"]] * 3) as network:
        hosts.ip("-n", network.namespace(2), "addr", "del", "10.78.1.3/24", "dev", "eth1")
        hosts.ip("-n", network.namespace(2), "addr", "add", "10.78.1.2/24", "dev", "eth1")
        return doctor.on_ranks("net", network)


def old_secret(doctor):
    """The job's secret was renewed everywhere but on host 1."""
    paths = []
    for name in ("new", "old"):
        path = os.path.join(doctor.folder.name, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
            out.write(name * 16)
        paths.append(path)
    with hosts.Hosts(3) as network:
        return doctor.on_ranks("net", network, lambda rank: {"FABRING_SECRET_FILE": paths[rank == 1]})


def lossy_port(doctor):
    """A cable that loses 2 frames of 100, both ways."""
    with hosts.Hosts(4) as network, Cable(network, 1, loss=0.02):
        return doctor.on_ranks("bench", network)


def far_host(doctor):
    """Host 2 was placed in another building: 10 ms more each way."""
    with hosts.Hosts(4) as network, Cable(network, 2, delay_ms=10):
        return doctor.on_ranks("bench", network)


def crossed_order(doctor):
    """Two ranks call on two communicators in opposite order: each waits in one for the other."""
    order = (("left", "right"), ("right", "left"))
    with Job(doctor.options.program, 2, "shm,tcp") as job:
        job.start_all(lambda rank: ["split name=left", "split name=right", *(f"loop on={name}" for name in order[rank])])
        for rank in job.ranks:
            rank.wait_event("split", 20, lambda event: event["name"] == "right")

        def judged():  # nothing moves any more, but it takes a while until that is sure
            found = doctor.on_job(job)
            return found if any(severity == "critical" for severity, _ in found) else None

        return until("a verdict", 20, judged)


FAULTS = (
    (flapping_link, ["eth0", r"flap|carrier|went down|up and down|lost (its|the) link"]),
    (small_socket_buffers, [r"tcp_[rw]mem"]),
    (limited_address_space, [r"address space|virtual memory|ulimit -v|RLIMIT_AS"]),
    (read_only_shm, ["/dev/shm", r"read-only|not writable|cannot write|cannot be written|not be written"]),
    (route_into_a_container_network, [r"host1|rank 1\b|\[1\]", r"10\.78\.0\.35", r"docker0|rout"]),
    (one_address_twice, [r"10\.78\.1\.2\b", "host1", "host2", r"same address|both|duplicate|twice|two hosts"]),
    (old_secret, ["secret", r"host1|rank 1\b"]),
    (lossy_port, ["host1", r"los[st]|retransmi|slow"]),
    (far_host, ["host2", r"latenc|delay|round trip|\bms\b|\bus\b"]),
    (crossed_order, ["left", "right", r"rank 0\b", r"rank 1\b"]),
)


BY_TIMES = (lossy_port, far_host)  # which a busy machine changes: they may be tried twice


def healthy(doctor):
    """The same three parts where nothing was done: no finding may be critical. What each says is no answer to a fault."""
    said = {}
    with hosts.Hosts(4, cards=[["1gbit"]] * 4) as network:
        said["host"] = doctor.on_host(network.command_prefix(0)) + doctor.on_host()
        said["net"] = doctor.on_ranks("net", network)
        said["bench"] = doctor.on_ranks("bench", network)
    for part, found in said.items():
        for severity, text in found:
            require(severity != "critical", f"doctor {part} on healthy hosts: {text}")
    return [text for found in said.values() for _, text in found]


def main():
    parser = argparse.ArgumentParser(description="Faults that doctor's authors did not know")
    parser.add_argument("--program", required=True, help="the built rank_program")
    parser.add_argument("--transport", help="taken for the sake of the other tests; not used")
    parser.add_argument("--slowness", type=float, default=1.0)
    parser.add_argument("--only", default="", help="only faults whose name contains this")
    parser.add_argument("--show", action="store_true", help="print every finding")
    options = parser.parse_args()
    options.fabring = os.path.join(os.path.dirname(os.path.abspath(options.program)), "..", "..", "tools", "fabring")
    harness.slowness = options.slowness
    hosts.require_or_skip()
    doctor = Doctor(options)
    try:
        usual = healthy(doctor)
    except Failed as error:
        print(f"FAILED  healthy: {error}")
        sys.exit(1)
    chosen = [fault for fault in FAULTS if options.only in fault[0].__name__]
    chosen.sort(key=lambda fault: fault[0] is not old_secret)  # it waits for all of a limit, and is in nobody's way

    def is_named(fault, words, again=False):
        try:
            found = fault(doctor)
            if not found:
                note = "nothing found"
            else:
                right = [text for _, text in found if holds(text, words)]
                blind = any(holds(text, words) for text in usual)
                note = None if right and not blind else "found, but not this: " + " | ".join(text[:160] for _, text in found)
        except (Failed, hosts.NotPossible, subprocess.TimeoutExpired) as error:
            found, note = [], f"no report: {str(error)[:600]}"
        if note is not None and fault in BY_TIMES and not again:
            print(f"again   {fault.__name__}: {note}", flush=True)
            return is_named(fault, words, again=True)
        shown = [f"    {severity}: {text}" for severity, text in found] if options.show else []
        print("\n".join([f"{'named ' if note is None else 'missed'}  {fault.__name__}{'' if note is None else ': ' + note}", *shown]), flush=True)
        return note is None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        named = sum(pool.map(lambda each: is_named(*each), chosen))
    print(f"score {named}/{len(chosen)}")
    sys.exit(0 if chosen and named == len(chosen) else 1)


if __name__ == "__main__":
    main()
