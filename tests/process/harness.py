"""Starts ranks as processes, follows their lines of JSON with deadlines, cleans up after itself.

A test says what each rank does (commands.hpp) and waits for events; nothing sleeps to be in step. All processes are ended
by pidfd or process object, never by name. Standard library only.
"""

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

SKIP = 77
slowness = 1.0  # every limit is multiplied by it: a sanitizer's build is slow
SUPPRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")


class Failed(Exception):
    """What a test found wrong, with everything the ranks said."""


class Skipped(Exception):
    """Why a case cannot be tried here."""


def arguments(description, runs, transports="shm,tcp,fabric", several_hosts=False):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--program", required=True, help="the built rank_program")
    parser.add_argument("--runs", type=int, default=runs, help="how many runs for each transport")
    parser.add_argument("--transport", default=transports, help="transports to try, with commas between")
    parser.add_argument("--seed", type=int, default=None, help="repeats a run's random choices")
    parser.add_argument("--slowness", type=float, default=1.0, help="how many times as long everything may take")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    options = parser.parse_args()
    options.transports = options.transport.split(",")
    if several_hosts:  # shared memory inside a host needs a network beside it
        options.transports = ["shm,tcp" if transport == "shm" else transport for transport in options.transports]
    global slowness
    slowness = options.slowness
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {options.seed}", flush=True)
    return options


def cli(options):
    """The command, which is built beside it."""
    return os.path.join(os.path.dirname(options.program), "..", "..", "tools", "fabring")


def ask(options, words, prefix=(), limit=15, user=None):
    """What the command answers, and how long it took."""
    began = time.monotonic()
    done = subprocess.run([*prefix, cli(options), *words], capture_output=True, text=True, timeout=limit * slowness, user=user)
    return done, time.monotonic() - began


def status(options, job, prefix=()):
    """The job, as `fabring status` sees it."""
    done, _ = ask(options, ["status", job.settings["FABRING_JOB_ID"], "--json"], prefix)
    require(done.returncode == 0, f"status ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["jobs"][0]


def until(what, limit, look):
    """Asks again until `look` gives something; what is asked takes its time, so nothing sleeps to be in step."""
    deadline = time.monotonic() + limit * slowness
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {limit} s")


def status_in_full(options, job):
    """The job, once the drivers of all ranks have answered: on busy cores one may not come round in time, and then only
    what is known without it is told."""

    def look():
        seen = status(options, job)
        return seen if all("memory" in rank for rank in seen["ranks"]) else None

    return until("what all drivers say", 15, look)


def counted(pid):
    """Bytes of anonymous and of shared memory; of what ranks share each has its part."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))


def processor_seconds(pid):
    """Of all threads; the process's own numbers are hundredths of a second."""
    spent = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as file:
            spent += int(file.read().split()[0])
    return spent / 1e9


reserved_ports = []
# Held while a process is made and while a port is looked at: until it is the new program, a child holds what we had open.
making = threading.Lock()


def free_port():
    """A port that nobody holds. Below the ephemeral range: between our look and the rank's bind no outgoing connection
    of another process can be given it. Nor can another harness: it finds the name taken that this one binds and keeps."""
    source = random.SystemRandom()
    while True:
        port = source.randrange(12000, 28000)
        reservation = socket.socket(socket.AF_UNIX)
        with making, socket.socket() as probe:
            try:
                reservation.bind(f"\0fabring-test-port-{port}")
                probe.bind(("0.0.0.0", port))
            except OSError:
                reservation.close()
                continue
        reserved_ports.append(reservation)
        del reserved_ports[:-64]  # of jobs that are long over
        return port


def socket_inodes(pid):
    """Of the sockets that a process holds; an OSError once it has ended."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes


class Rank:
    """One process. Its events and its log lines arrive in threads; waiting for them is on one condition."""

    def __init__(self, number, command, environment):
        self.number = number
        self.events = []
        self.log = collections.deque(maxlen=400)
        self.exit_code = None
        self.exit_time = None
        self.stopped = False
        self.changed = threading.Condition()
        with making:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, start_new_session=True)
        self.pidfd = os.pidfd_open(self.process.pid)
        self.threads = [threading.Thread(target=target, daemon=True)
                        for target in (self._read_events, self._read_log, self._await_end)]
        for thread in self.threads:
            thread.start()

    def _read_events(self):
        for line in self.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                event = {"event": "garbage", "text": line.decode(errors="replace"), "t": time.monotonic()}
            with self.changed:
                self.events.append(event)
                self.changed.notify_all()

    def _read_log(self):
        for line in self.process.stderr:
            with self.changed:
                self.log.append((time.monotonic(), line.decode(errors="replace").rstrip()))
                self.changed.notify_all()

    def _await_end(self):
        # Not Popen.wait(): the zombie must stay until its time is known and its output read.
        os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOWAIT)
        ended = time.monotonic()
        for thread in self.threads[:2]:
            thread.join()
        code = self.process.wait()
        with self.changed:
            self.exit_time, self.exit_code = ended, code
            self.changed.notify_all()

    # ---- what it said

    def find(self, what, accept=lambda event: True, start=0):
        return next((e for e in self.events[start:] if e["event"] == what and accept(e)), None)

    def errors(self):
        return [e for e in self.events if e["event"] == "error"]

    def wait_event(self, what, limit, accept=lambda event: True, start=0):
        """The event, within `limit` seconds; a rank that ends without it has failed."""
        limit *= slowness
        deadline = time.monotonic() + limit
        with self.changed:
            while True:
                event = self.find(what, accept, start)
                if event:
                    return event
                left = deadline - time.monotonic()
                if left <= 0 or self.exit_code is not None:
                    how = f"ended with {self.exit_code}" if self.exit_code is not None else f"{limit} s passed"
                    raise Failed(f"rank {self.number}: {how} without '{what}'")
                self.changed.wait(left)

    def wait_log(self, words, limit):
        """Time of the first log line that contains all words."""
        limit *= slowness
        deadline = time.monotonic() + limit
        with self.changed:
            while True:
                for when, line in self.log:
                    if all(word in line for word in words):
                        return when
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failed(f"rank {self.number}: no log line with {words} within {limit} s")
                self.changed.wait(left)

    def wait_exit(self, limit):
        limit *= slowness
        with self.changed:
            if not self.changed.wait_for(lambda: self.exit_code is not None, limit):
                raise Failed(f"rank {self.number}: still there after {limit:.1f} s")
            return self.exit_code

    # ---- what is done to it

    def say(self, line):
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()

    def ask(self, line, limit):
        """Sends a command and waits until it has been served; its exit code."""
        start = len(self.events)
        self.say(line)
        return self.wait_event("served", limit, lambda e: e["command"] == line, start)["exit"]

    def signal(self, number):
        """False when it had ended already. Of SIGSTOP it returns once it stands still: threads go on until the one that
        takes the signal has the processor."""
        try:
            signal.pidfd_send_signal(self.pidfd, number)
            if number == signal.SIGSTOP:
                os.waitid(os.P_PIDFD, self.pidfd, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            return True
        except (ProcessLookupError, ChildProcessError):
            return False

    def close(self):
        self.signal(signal.SIGKILL)
        for thread in self.threads:
            thread.join(10)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except OSError:
                pass
        os.close(self.pidfd)


class Job:
    """All ranks of one job. A context manager: leaving it ends whatever still runs; an error gets what the ranks said."""

    def __init__(self, program, size, transport, settings=None, master="127.0.0.1"):
        self.program = program
        self.size = size
        self.ranks = []
        self.settings = {
            "FABRING_WORLD_SIZE": str(size),
            "FABRING_MASTER_ADDR": master,
            "FABRING_MASTER_PORT": str(free_port()),
            "FABRING_JOB_ID": f"test-{random.SystemRandom().randrange(1 << 48):x}",
            "FABRING_TRANSPORT": transport,
            "FABRING_RENDEZVOUS_TIMEOUT": str(30 * slowness),
            "FABRING_TIMEOUT": str(60 * slowness),
            # libfabric pulls in libinfinipath, whose handler would turn a crash into exit code 1.
            "IPATH_NO_BACKTRACE": "1",
        }
        self.settings.update(settings or {})

    @property
    def port(self):
        return int(self.settings["FABRING_MASTER_PORT"])

    def start(self, number, commands, settings=None, prefix=()):
        """One rank. A setting of None is left out."""
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith("FABRING_") and k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
        for tool in ("lsan", "tsan"):  # what libfabric does is not ours to mend
            environment.setdefault(f"{tool.upper()}_OPTIONS", f"suppressions={SUPPRESSIONS}/{tool}.supp:print_suppressions=0")
        environment.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
        wanted = {**self.settings, "FABRING_RANK": str(number), **(settings or {})}
        environment.update({k: v for k, v in wanted.items() if v is not None})
        rank = Rank(number, [*prefix, self.program, *commands], environment)
        self.ranks.append(rank)
        return rank

    def start_all(self, commands):
        """`commands`: a list for all ranks, or a function of the rank."""
        for number in range(self.size):
            self.start(number, commands(number) if callable(commands) else commands)

    def kill_in_a_loop(self, victim, on, ranks):
        """These ranks sum on this communicator until one of them is killed, in the middle of it; the others."""
        for rank in ranks:
            rank.say(f"loop on={on} steps=0 every=10 sizes=4194304")
        for rank in ranks:
            rank.wait_event("step", 30, start=len(rank.events))
        self.ranks[victim].signal(signal.SIGKILL)
        return [rank for rank in ranks if rank.number != victim]

    def others(self, *numbers):
        return [rank for rank in self.ranks if rank.number not in numbers]

    def wait_event(self, what, limit):
        return [rank.wait_event(what, limit) for rank in self.ranks]

    def wait_exit(self, limit):
        return [rank.wait_exit(limit) for rank in self.ranks]

    def expect_fine(self, limit):
        self.wait_exit(limit)
        for rank in self.ranks:
            require(rank.exit_code == 0, f"rank {rank.number} ended with {rank.exit_code}")
            require(not rank.errors(), f"rank {rank.number} has errors")

    def told(self):
        lines = []
        for rank in self.ranks:
            lines.append(f"--- rank {rank.number} pid {rank.process.pid} exit {rank.exit_code} at {rank.exit_time}")
            lines += [f"    {event}" for event in rank.events[-12:]]
            lines += [f"    {when:.3f} | {line}" for when, line in list(rank.log)[-25:]]
        return "\n".join(lines)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        told = self.told() if kind else ""
        for rank in self.ranks:
            rank.close()
        if kind and issubclass(kind, (Failed, OSError)):
            raise Failed(f"{error}\n{told}") from None


def require(condition, text):
    if not condition:
        raise Failed(text)


def call_on(ranks, lines):
    """A command for each rank at once; what each said it was called to do."""
    starts = [len(rank.events) for rank in ranks]
    for rank, line in zip(ranks, lines):
        rank.say(line)
    for rank, line, start in zip(ranks, lines, starts):
        served = rank.wait_event("served", 20, lambda event: event["command"] == line, start)
        require(served["exit"] == 0, f"rank {rank.number}: '{line}' ended with {served['exit']}")
    return [rank.find("called", start=start) for rank, start in zip(ranks, starts)]


def require_error(rank, code, culprit=None, words=(), host_known=True):
    """The first error a rank reported has this code, names this rank and says these words; of a lost rank, its host too."""
    errors = rank.errors()
    require(errors, f"rank {rank.number} reported no error")
    first = errors[0]
    codes = (code,) if isinstance(code, str) else code
    require(first["code"] in codes, f"rank {rank.number}: code {first['code']} and not {' or '.join(codes)}")
    if culprit is not None:
        require(first["rank"] == culprit, f"rank {rank.number}: the error is about rank {first['rank']}, not {culprit}")
        require(re.search(rf"\brank {culprit}\b", first["text"]), f"rank {rank.number}: the text does not name rank {culprit}")
    if first["code"] == "peer_lost" and host_known:
        require(first["host"] and f"(host {first['host']}" in first["text"],
                f"rank {rank.number}: the error about rank {first['rank']} does not name its host: {first['text']}")
    for word in words:
        require(word in first["text"], f"rank {rank.number}: '{word}' is not in the text")
    return first


def suspected(line, *victims):
    """It names one of these ranks as silent."""
    return "it is given up after" in line and any(re.search(rf"\brank {victim}\b", line) for victim in victims)


def named_after(rank, since, *victims):
    """Seconds until it has named one of the silent ranks. Neighbours on the control plane hear it themselves, the others are
    told."""
    with rank.changed:
        rank.changed.wait_for(lambda: rank.exit_code is not None or
                              any(suspected(line, *victims) for _, line in rank.log), 12 * slowness)
        return min((when - since for when, line in rank.log if suspected(line, *victims)), default=99.0)


def require_named_once(rank, victim):
    """Of a rank that has ended."""
    lines = [line for _, line in rank.log if suspected(line, victim)]
    require(len(lines) == 1, f"rank {rank.number} named rank {victim} as silent {len(lines)} times: {lines}")


def ranks_named(text):
    """All ranks that a text speaks of, in lists too: "rank 2 of 3", "ranks 1, 3 and 5-7 of 9"."""
    item = r"\d+(?:-\d+)?"
    named = set()
    for one, many in re.findall(rf"\b(?:rank (\d+)|ranks ({item}(?:(?:, | and ){item})*))", text):
        for part in re.findall(item, many or one):
            first, _, last = part.partition("-")
            named.update(range(int(first), int(last or first) + 1))
    return named


START_LIMIT = 3  # seconds for which ranks wait at the start for one that was killed in it


def limit_start(job):
    job.settings["FABRING_RENDEZVOUS_TIMEOUT"] = str(START_LIMIT * slowness)


def require_error_of_start(job, rank, victim, killed, limit):
    """What this rank says of one that was killed while all were starting, after limit_start(): the error, and whether it is
    at second hand. Known: who hears of it first may be gone before it has told a rank that is just coming, which then names
    that one."""
    rank.wait_exit(START_LIMIT + limit + 8)
    require(rank.exit_code == 3, f"rank {rank.number} ended with {rank.exit_code}")
    # Killed before it came, it is missing; rank 0 then cannot be reached at the master's address.
    error = require_error(rank, ("peer_lost", "timeout", "unavailable"), host_known=False)
    # Hosts are known only once the control plane has formed, and a rank may hear the text of another one before.
    second_hand = victim not in ranks_named(error["text"])
    if second_hand:
        first = [each for each in job.others(victim, rank.number) if each.number == error["rank"]]
        require(first and first[0].wait_exit(limit + 5) == 3, f"rank {rank.number}: the text does not name rank {victim}")
        require_error(first[0], "peer_lost", victim, host_known=False)
    bound = (limit + (0 if error["code"] == "peer_lost" else START_LIMIT)) * slowness
    require(rank.exit_time - killed <= bound, f"rank {rank.number} took {rank.exit_time - killed:.3f} s")
    return error, second_hand


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def quantiles(values):
    if not values:
        return "none"
    return f"n {len(values)}, p50 {quantile(values, 0.5):.3f}, p99 {quantile(values, 0.99):.3f}, max {max(values):.3f} s"


ENOUGH_FOR_P99, ENOUGH_FOR_MEDIAN = 200, 10  # one of the times may be the machine's


def require_most_within(times, limit):
    """The p99 of these times, or the median where there are few; of a handful nothing."""
    if len(times) < ENOUGH_FOR_MEDIAN:
        return
    share, what = (0.99, "p99") if len(times) >= ENOUGH_FOR_P99 else (0.5, "median")
    require(quantile(times, share) <= limit * slowness, f"the {what} is more than {limit * slowness} s: {quantiles(times)}")


def run_cases(cases, at_once=1, then=(), then_at_once=1):
    """Runs (name, function) pairs, `at_once` of them side by side, and `then` those that measure what more beside them would
    change; prints a line each; ends the program with the right code: that of a skip if a case was skipped and none failed."""
    if not cases and not then:
        sys.exit("no case: none of this test's has what --only says in its name, over these transports")

    def run(case):
        began = time.monotonic()
        try:
            note = case[1]() or ""
            print(f"ok      {case[0]} ({time.monotonic() - began:.1f} s) {note}", flush=True)
            return 0
        except Skipped as why:
            print(f"skipped {case[0]}: {why}", flush=True)
            return SKIP
        except Failed as error:
            print(f"FAILED  {case[0]} ({time.monotonic() - began:.1f} s): {error}", flush=True)
            return 1
        except Exception:  # the test's own mistake, or what nobody thought of
            print(f"FAILED  {case[0]} ({time.monotonic() - began:.1f} s):\n{traceback.format_exc()}", flush=True)
            return 1

    codes = []
    for some, workers in ((cases, at_once), (then, then_at_once)):
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            codes += pool.map(run, some)
    if 1 in codes:
        print(f"{codes.count(1)} of {len(codes)} failed")
        sys.exit(1)
    sys.exit(SKIP if SKIP in codes else 0)
