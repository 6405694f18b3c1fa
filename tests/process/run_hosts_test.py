"""`fabring run --hosts` over network namespaces: right answers and nodes, with the launcher's host first, last and not in
the list, IPv4 and IPv6; a rank that dies elsewhere; the launcher killed. A stand-in for ssh enters the namespaces; where an
sshd is installed the same is done over the real one, which also gets a cut link."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import harness
import hosts
from harness import Failed, Rank, arguments, require, run_cases

SSHD = "/usr/sbin/sshd"
LOOP = "loop steps=8 sizes=4,1024,65536,1048576"

STAND_IN = """
case $1 in
{cases}
esac
export SSH_CONNECTION="{launcher} 1 $1 22"
exec 3<&0
setsid ip netns exec $namespace unshare --uts sh -c 'hostname "$1"; exec sh -c "$2"' _ $name "$2" <&3 3<&- &
exec 3<&-
wait $!
"""

SSHD_CONFIG = """
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UseDNS no
ClientAliveInterval 1
ClientAliveCountMax 3
"""

SSH_CONFIG = """
Host *
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  BatchMode yes
  ConnectTimeout 5
"""


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as out:
        out.write(text)
    return path


class StandIn:
    def __init__(self, network, folder):
        cases = "\n".join(f"  {network.address(h)}) namespace={network.namespace(h)} name=host{h};;"
                          for h in range(network.count))
        self.command = "sh " + write(folder, "ssh", STAND_IN.format(cases=cases, launcher=network.address(0)))

    def close(self):
        pass


class RealSsh:
    """An sshd of its own in each namespace, with keys of its own."""

    def __init__(self, network, folder):
        os.makedirs("/run/sshd", exist_ok=True)
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"], check=True)
        config = write(folder, "sshd_config", SSHD_CONFIG.format(folder=folder))
        self.command = "ssh -F " + write(folder, "ssh_config", SSH_CONFIG.format(folder=folder))
        self.daemons = []
        for host in range(network.count):
            daemon = subprocess.Popen([*network.command_prefix(host), SSHD, "-D", "-e", "-f", config],
                                      stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.daemons.append(daemon)
            for line in daemon.stderr:
                if "listening" in line:
                    break
            else:
                self.close()
                raise Failed(f"sshd did not start: {config}")

    def close(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
            daemon.stderr.close()


class Launcher:
    """`fabring run` on host 0; the events are those of all ranks."""

    def __init__(self, options, shell, family, count=3):
        self.options, self.shell, self.family, self.count = options, shell, family, count

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        os.chmod(self.folder.name, 0o755)
        self.network = hosts.Hosts(self.count, family=self.family)
        self.network.__enter__()
        self.process = self.way = None
        try:
            self.way = self.shell(self.network, self.folder.name)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def start(self, layout, commands, *more):
        """`layout`: (host, ranks) pairs."""
        bracketed = (lambda a: f"[{a}]") if self.family == 6 else (lambda a: a)
        where = ",".join(f"{bracketed(self.network.address(host))}:{ranks}" for host, ranks in layout)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FABRING_")}
        environment |= {"FABRING_TRANSPORT": "tcp", "FABRING_RENDEZVOUS_TIMEOUT": str(30 * harness.slowness),
                        "FABRING_TIMEOUT": str(60 * harness.slowness)}
        self.process = Rank("launcher", [*self.network.command_prefix(0), self.options.fabring, "run", "--hosts", where,
                                         "--ssh", self.way.command, "--chdir", "/", *more, "--",
                                         os.path.abspath(self.options.program), *commands], environment)
        return self.process

    def pids(self, ranks, limit=20):
        """Of all ranks, once all are connected."""
        deadline = time.monotonic() + limit * harness.slowness
        with self.process.changed:
            enough = lambda: sum(e["event"] == "ready" for e in self.process.events) == ranks
            if not self.process.changed.wait_for(lambda: enough() or self.process.exit_code is not None,
                                                 deadline - time.monotonic()) or not enough():
                raise Failed("the ranks were not ready")
        return [event["pid"] for event in self.process.events if event["event"] == "begin"]

    def said(self, pattern):
        return any(re.search(pattern, line) for _, line in self.process.log)

    def __exit__(self, kind, error, trace):
        told = "\n".join(f"    {line}" for _, line in (list(self.process.log)[-25:] if self.process else []))
        if self.process:
            self.process.close()
        if self.way:
            self.way.close()
        self.network.__exit__(None, None, None)
        self.folder.cleanup()
        if kind and issubclass(kind, Failed):
            raise Failed(f"{error}\n{told}") from None


def is_gone(pid):
    """A zombie that nobody reaps counts as gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def require_gone(pids, limit):
    limit *= harness.slowness
    deadline = time.monotonic() + limit
    while not all(is_gone(pid) for pid in pids):
        require(time.monotonic() < deadline, f"after {limit} s there are still {[p for p in pids if not is_gone(p)]}")
        time.sleep(0.01)  # nothing tells that a process of another parent has ended


def right_answers(options, shell, layout, family=4):
    with Launcher(options, shell, family) as job:
        process = job.start(layout, [LOOP, "leave"])
        require(process.wait_exit(40) == 0, f"ended with {process.exit_code}")
        ready = [event for event in process.events if event["event"] == "ready"]
        nodes = hosts.placement([ranks for _, ranks in layout])
        require(sorted(event["rank"] for event in ready) == list(range(len(nodes))), f"not all were ready: {ready}")
        require(all(event["nodes"] == nodes for event in ready), f"nodes are {ready[0]['nodes']}, not {nodes}")
        require(not process.errors(), f"errors: {process.errors()}")


def rank_dies(options, shell):
    with Launcher(options, shell, 4) as job:
        process = job.start([(0, 1), (1, 1), (2, 1)], ["loop steps=0 sizes=4,65536"])
        pids = job.pids(3)
        command = [open(f"/proc/{pid}/environ").read() for pid in pids]
        victim = next(pid for pid, text in zip(pids, command) if "FABRING_RANK=2\0" in text)
        os.kill(victim, signal.SIGKILL)
        require(process.wait_exit(20) == 137, f"ended with {process.exit_code}")
        require(job.said(rf"rank 2 on host {re.escape(job.network.address(2))} \(pid {victim}\) was killed"),
                "rank and host are not named")
        lost = [e for e in process.errors() if e["code"] == "peer_lost" and e["rank"] == 2]
        require(len(lost) == 2, f"{len(lost)} of 2 survivors say what happened")
        require_gone(pids, 2)


def launcher_killed(options, shell):
    with Launcher(options, shell, 4) as job:
        process = job.start([(0, 1), (1, 1), (2, 1)], ["loop steps=0 sizes=4,65536"])
        pids = job.pids(3)
        process.signal(signal.SIGKILL)
        require_gone(pids, 10)


def cut_link(options, shell):
    with Launcher(options, shell, 4) as job:
        process = job.start([(0, 1), (1, 1), (2, 1)], ["loop steps=0 sizes=4,65536"], "--lost-after", "3s", "--grace", "1s")
        pids = job.pids(3)
        job.network.cut(2)
        require(process.wait_exit(25) != 0, "a lost host is no good end")
        require(job.said(rf"host {re.escape(job.network.address(2))}: (nothing was heard|the connection ended)"),
                "the host is not named")
        require_gone(pids, 15)


def main():
    options = arguments(__doc__, runs=1)
    options.fabring = os.path.join(os.path.dirname(os.path.abspath(options.program)), "..", "..", "tools", "fabring")
    hosts.require_or_skip(options.fabring)
    here_first, here_last, elsewhere = [(0, 2), (1, 1), (2, 1)], [(2, 1), (1, 2), (0, 1)], [(1, 1), (2, 2)]
    cases = [("this host first", lambda: right_answers(options, StandIn, here_first)),
             ("this host last", lambda: right_answers(options, StandIn, here_last)),
             ("other hosts only", lambda: right_answers(options, StandIn, elsewhere)),
             ("IPv6 only", lambda: right_answers(options, StandIn, here_first, 6)),
             ("a rank dies on the third host", lambda: rank_dies(options, StandIn)),
             ("the launcher is killed", lambda: launcher_killed(options, StandIn))]
    if os.path.exists(SSHD) and shutil.which("ssh"):
        cases += [("a real sshd", lambda: right_answers(options, RealSsh, here_first)),
                  ("a real sshd, IPv6, other hosts only", lambda: right_answers(options, RealSsh, elsewhere, 6)),
                  ("a real sshd, a rank dies", lambda: rank_dies(options, RealSsh)),
                  ("a real sshd, the launcher is killed", lambda: launcher_killed(options, RealSsh)),
                  ("a real sshd, a cut link", lambda: cut_link(options, RealSsh))]
    else:
        print("no sshd here: the stand-in only")
    run_cases([case for case in cases * options.runs if options.only in case[0]], at_once=3)


main()
