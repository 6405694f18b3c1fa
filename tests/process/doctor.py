"""`fabring doctor` as ranks on hosts made of network namespaces, and what its report says. Standard library only."""

import json
import os
import random
import subprocess
import time

import harness
from harness import Failed, free_port, require, run_cases


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

        def start(rank):
            of_rank = {**(settings or {}).get(rank, {}), **(settings or {}).get("all", {})}
            program = (programs or {}).get(rank, harness.cli(options))
            self.ranks[rank] = subprocess.Popen(
                [*network.command_prefix(rank), program, "doctor", part, "--json", "--timeout",
                 str(timeout * harness.slowness), *words],
                env={**common, "FABRING_RANK": str(rank), **of_rank}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, start_new_session=True)

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
    """The finding with this id about this place, with all these words."""
    for finding in report["findings"]:
        if finding["id"] == identity and where in finding["where"] and all(word in finding["what"] for word in words):
            return finding
    raise Failed(f"no {identity} about '{where}' with {words} in {json.dumps(report['findings'], indent=1)}")


def only(report, *identities):
    others = [f for f in bad(report) if f["id"] not in identities]
    require(not others, f"findings that are no cause: {json.dumps(others, indent=1)}")


def own_networks(network):
    """As in a routed fabric: each card has a network of its own, and a route to the others' on its side."""
    for host in range(network.count):
        for card, *_ in network.ports(host):
            network.change_address(host, card, f"{network.address(host, card)}/32", route=f"10.78.{card}.0/24")


def run_named(options, cases, at_once):
    """Each function is a case, with its name."""
    run_cases([(case.__name__.replace("_", " "), lambda case=case: case(options))
               for case in cases if options.only in case.__name__], at_once)
