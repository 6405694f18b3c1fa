"""`fabring status` and `fabring doctor hang` on running jobs: a healthy one, a rank that never enters, a stopped one, a
mismatched call, messages that differ in their tags, ranks on several hosts, stuck in a function of their own; another user and hostile bytes at the socket."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import harness
import hosts
from harness import Job, arguments, ask, require, run_cases, status, status_in_full, until

LOOP = "loop steps=0 sizes=4,65536,1048576 every=5"
BIG = "loop steps=1 sizes=4194304"


def hang(options, job, after="1", prefix=(), more=()):
    done, took = ask(options, ["doctor", "hang", job.settings["FABRING_JOB_ID"], "--after", after, "--json", *more], prefix)
    require(done.stdout, f"doctor hang ended with {done.returncode} and no report: {done.stderr}")
    report = json.loads(done.stdout)
    require(took < 8 * harness.slowness, f"doctor hang took {took:.1f} s")
    return done.returncode, report["findings"]


def expect(findings, identity, rank=None, words=()):
    fitting = [f for f in findings if f["id"] == identity and (rank is None or f["where"].startswith(f"rank {rank} "))]
    if not fitting:
        return None
    for word in words:
        require(any(word in f["what"] for f in fitting), f"'{word}' is in none of {fitting}")
    return fitting[0]


def found(options, job, identity, rank, words=(), prefix=(), limit=12):
    """The finding, once it is there; while waiting for it nothing else may be critical."""

    def look():
        code, findings = hang(options, job, prefix=prefix)
        finding = expect(findings, identity, rank, words)
        wrong = [f for f in findings if f["severity"] == "critical" and f["id"] != identity]
        require(not wrong, f"also critical: {wrong}")
        require(code == (1 if any(f["severity"] == "critical" for f in findings) else code), f"exit code {code}: {findings}")
        return finding

    return until(f"{identity} of rank {rank}", limit, look)


def serve(job):
    job.start_all(["serve"])
    job.wait_event("serving", 30)


def words_with_memory(options, job):
    """The text, once it has what only the ranks' drivers know."""
    text = ask(options, ["status", job.settings["FABRING_JOB_ID"]])[0].stdout
    return text if "memory of rank" in text and "scratch" in text else None


def healthy(options, transport):
    with Job(options.program, 3, transport) as job:
        job.start_all([LOOP])
        job.wait_event("step", 30)
        seen = status_in_full(options, job)
        require(len(seen["ranks"]) == 3, f"{len(seen['ranks'])} ranks")
        for number, rank in enumerate(seen["ranks"]):
            require(rank["rank"] == number and rank["answer"] == "answered", f"{rank}")
            require(rank["pid"] == job.ranks[number].process.pid, f"pid {rank['pid']}")
            require(rank["communicators"][0]["label"] == "world" and rank["communicators"][0]["called"] > 0, f"{rank}")
            memory = rank["memory"]
            parts = [memory[part] for part in ("channels", "posted", "landings", "outgoing", "copies")]
            held = sum(parts) + memory["scratch"]["held"] + memory["pinned"]["held"]
            require(memory["peers"] == 2 and memory["held"] == held > 0, f"{memory}")
            require(memory["scratch"]["most"] <= memory["scratch"]["limit"], f"{memory}")
        code, findings = hang(options, job, after="2")
        require(code == 0 and findings[0]["id"] == "hang.none", f"exit code {code}: {findings}")
        for rank in job.ranks:  # it goes on
            rank.wait_event("step", 10, start=len(rank.events))
            require(not rank.errors(), f"rank {rank.number} has errors")
        every_job, _ = ask(options, ["status"])  # of this host: also those of tests beside
        require(job.settings["FABRING_JOB_ID"] in every_job.stdout, every_job.stdout)
        text = until("its memory in words", 15, lambda: words_with_memory(options, job))
        require(all(len(line) <= 80 for line in text.splitlines() if " " in line.strip()), text)
        why, _ = ask(options, ["status", job.settings["FABRING_JOB_ID"], "--explain", "--strict"])
        require(why.returncode == 0 and "asked over unix sockets of this host: ranks 0-2" in why.stdout, f"{why}")


def never_enters(options, transport):
    with Job(options.program, 3, transport) as job:
        serve(job)
        for rank in job.ranks:
            rank.say("loop steps=2 sizes=65536")
        for rank in job.ranks:
            rank.wait_event("served", 20)
        for rank in job.others(1):
            rank.say(BIG)
        finding = found(options, job, "hang.never_entered", 1, ["allreduce #3 on 'world'", "ranks 0 and 2"])
        require("outside Fabring" in finding["what"] and "#2 on 'world'" in finding["what"], finding["what"])
        require(str(job.ranks[1].process.pid) in finding["where"], finding["where"])
        job.ranks[1].say(BIG)
        for rank in job.ranks:
            rank.wait_event("served", 20, lambda e: e["command"] == BIG)
            require(not rank.errors(), f"rank {rank.number}: being asked was an error")


def shrunk(options, transport):
    """A death that was overcome is not why a job stands still: it is told, and is no longer critical."""
    with Job(options.program, 4, transport) as job:
        serve(job)
        left = job.kill_in_a_loop(2, "world", list(job.ranks))
        for rank in left:
            rank.wait_event("error", 20, lambda event: event["rank"] == 2)
        require(expect(hang(options, job)[1], "hang.lost", words=["ranks 0, 1 and 3"]), "the death is not told")
        for rank in left:
            rank.say("shrink on=world name=left")
        for rank in left:
            rank.wait_event("shrink", 30, lambda event: event["name"] == "left" and event["code"] == "ok")
            rank.say("loop on=left steps=2 sizes=65536")
        for rank in left:
            rank.wait_event("served", 20, lambda event: event["command"].startswith("loop on=left"))
        code, findings = hang(options, job)
        require(code == 0, f"exit code {code}: {findings}")
        require(all(one["severity"] in ("ok", "info") for one in findings), f"{findings}")
        require(expect(findings, "hang.shrunk", words=["'world' failed on ranks 0, 1 and 3"]), f"{findings}")
        require(expect(findings, "hang.left_out", 2), f"{findings}")
        require(expect(findings, "hang.none", words=["all 3 ranks"]), f"{findings}")
        for rank in left[:2]:
            rank.say("loop on=left steps=1 sizes=4194304")
        found(options, job, "hang.never_entered", 3, ["'world without rank 2'"])


def stopped(options, transport):
    with Job(options.program, 3, transport) as job:
        job.start_all([LOOP])
        job.wait_event("step", 30)
        job.ranks[2].signal(signal.SIGSTOP)
        finding = found(options, job, "hang.stopped", 2)
        require("SIGSTOP" in finding["what"] and "kill -CONT" in finding["fix"], f"{finding}")
        # Waits in step with nothing: the rank that waits says so once nothing has moved for a second.
        until("the ranks that wait for it", 10,
              lambda: expect(hang(options, job)[1], "hang.stopped", 2, ()) and
              "allreduce" in expect(hang(options, job)[1], "hang.stopped", 2)["what"])
        job.ranks[2].signal(signal.SIGCONT)
        for rank in job.ranks:
            rank.wait_event("step", 10, start=len(rank.events))


def all_stopped(options, transport):
    """None can say which job it is of: it is found by its name all the same, and where it is is known."""
    with Job(options.program, 2, transport) as job:
        serve(job)
        for rank in job.ranks:
            rank.signal(signal.SIGSTOP)
        done, _ = ask(options, ["doctor", "hang", job.settings["FABRING_JOB_ID"]])
        require(done.returncode == 1 and done.stdout.count("[hang.stopped]") == 2, f"{done.returncode}: {done.stdout}{done.stderr}")
        require("on 1 host\n" in done.stdout and "no rank answered" in done.stdout, done.stdout)
        for rank in job.ranks:
            rank.signal(signal.SIGCONT)


def mismatched(options, transport):
    with Job(options.program, 2, transport) as job:
        serve(job)
        job.ranks[0].say("loop steps=1 sizes=1048576")
        job.ranks[1].say("loop steps=1 sizes=65536")
        for rank in job.ranks:
            rank.wait_event("error", 20)
        code, findings = hang(options, job)
        require(code == 1, f"exit code {code}")
        require(expect(findings, "hang.mismatch", None, ["262144", "16384"]), f"{findings}")


def crossed(options, transport):
    """Each in an operation that the other never calls: on two communicators."""
    with Job(options.program, 2, transport) as job:
        serve(job)
        for rank in job.ranks:
            rank.say("split name=part colour=0")
        for rank in job.ranks:
            rank.wait_event("served", 20)
        job.ranks[0].say(BIG)
        job.ranks[1].say(BIG + " on=part")

        def look():
            _, findings = hang(options, job)
            require(not expect(findings, "hang.never_entered"), f"of a circle one is accused: {findings}")
            return expect(findings, "hang.order", None, ["on 'world'", "on 'part'"])

        until("the circle is named", 12, look)


def other_tags(options, transport):
    """A send and a receive that differ in their tags; a receive from anybody, whom nobody sends anything."""
    with Job(options.program, 3, transport) as job:
        serve(job)
        job.ranks[0].say("call what=send root=1 tag=1 count=1000000")
        job.ranks[1].say("call what=recv root=0 tag=2 count=1000000")
        finding = found(options, job, "hang.mismatch", None, ["to 1, tag 1)", "from 0, tag 2)"])
        require("tags differ" in finding["what"], finding["what"])
    with Job(options.program, 2, transport) as job:
        serve(job)
        job.ranks[1].say("call what=recv root=-1 tag=2 count=1000000")
        finding = found(options, job, "hang.standing", 1, ["from anybody, tag 2)"])
        require(finding["severity"] == "warning", f"{finding}")


def stuck(options, transport):
    """All ranks inside a function of their own: no operation says that anything waits, so they are asked twice."""
    with Job(options.program, 2, transport) as job:
        serve(job)
        for rank in job.ranks:  # libfabric may still be connecting, and who is stuck asks it nothing any more
            rank.say("loop steps=3 sizes=4096")
        for rank in job.ranks:
            rank.say("stuck")
        job.wait_event("stuck", 30)
        code, findings = hang(options, job, after="600")
        require(code == 3 and all(f["id"] == "hang.driver" and f["severity"] == "not_checked" for f in findings),
                f"600 s have not passed, exit code {code}: {findings}")
        code, findings = hang(options, job)
        for rank in job.ranks:
            finding = expect(findings, "hang.driver", rank.number, ["does not come round, for 1.0 s now"])
            require(code == 1 and finding and finding["severity"] == "critical", f"exit code {code}: {findings}")


def refused(options, transport):
    if os.geteuid() != 0:
        return "not root: cannot become another user"
    with Job(options.program, 2, transport) as job:
        job.start_all([LOOP])
        job.wait_event("step", 30)
        # Another user may not be able to read the folder the command lies in; the socket is what is asked here.
        look = ("import socket,sys\n"
                "s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect('\\0' + sys.argv[1])\n"
                "try:\n s.sendall(b'fabring?\\x01\\x01' + bytes(6)); print(len(s.recv(65536)))\n"
                "except (BrokenPipeError, ConnectionResetError): print(0)\n")
        name = door_names(job)[0]

        def answer(user):
            done = subprocess.run(["/usr/bin/env", "python3", "-c", look, name], capture_output=True, text=True, timeout=20,
                                  user=user, cwd="/")
            require(done.returncode == 0, done.stderr)
            return int(done.stdout)

        until("an answer", 20, lambda: answer(0))  # who is slow to ask, on busy cores, gets none
        require(answer(65534) == 0, "another user got an answer")


def door_names(job):
    names = []
    with open("/proc/net/unix") as table:
        for line in table:
            match = re.search(r"@(fabring-status-1-[0-9a-f]{16}-\d+)$", line.strip())
            if match and match[1] not in names:
                names.append(match[1])
    pids = {rank.process.pid for rank in job.ranks}
    ours = []
    for name in names:
        with socket.socket(socket.AF_UNIX) as visitor:
            try:
                visitor.connect("\0" + name)
            except OSError:
                continue
            pid = int.from_bytes(visitor.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
            if pid in pids:
                ours.append(name)
    return sorted(ours, key=lambda name: int(name.rsplit("-", 1)[1]))


def hostile(options, transport):
    with Job(options.program, 2, transport) as job:
        job.start_all([LOOP])
        job.wait_event("step", 30)
        name = door_names(job)[0]
        mute = []
        for bytes_ in (b"", b"GET / HTTP/1.0\r\n\r\n", b"fabring?", b"fabring?\x02\x00" + bytes(6), b"\xff" * 100000,
                       b"fabring?\x01\x01" + b"\x01" * 6):
            visitor = socket.socket(socket.AF_UNIX)
            visitor.settimeout(10 * harness.slowness)
            visitor.connect("\0" + name)
            try:
                visitor.sendall(bytes_)
            except OSError:
                pass
            mute.append(visitor)
        # All that hold the door open, one after the other, and the right question gets its answer all the same.
        seen = until("an answer", 20, lambda: all(r["answer"] == "answered" for r in status(options, job)["ranks"]))
        require(seen, "no answer")
        for visitor in mute:
            try:
                require(visitor.recv(100) == b"", "it answered nonsense")
            except ConnectionResetError:
                pass
            visitor.close()
        for rank in job.ranks:
            rank.wait_event("step", 10, start=len(rank.events))
            require(not rank.errors(), f"rank {rank.number} has errors")


def nameless(options, transport):
    """Of several jobs one is to be named: those that have no name are listed with what else `doctor hang` takes."""
    unnamed = {"FABRING_JOB_ID": ""}
    with Job(options.program, 2, transport, unnamed) as first, Job(options.program, 2, transport, unnamed) as second:
        for job in (first, second):
            serve(job)
        done, _ = ask(options, ["doctor", "hang"])
        require(done.returncode == 2 and "name one" in done.stderr, f"{done.returncode}: {done.stderr}")
        for job in (first, second):
            pid = job.ranks[0].process.pid
            require(f"(rank 0: pid {pid})" in done.stderr, done.stderr)
            named, _ = ask(options, ["doctor", "hang", str(pid), "--after", "60"])
            require(named.returncode == 0 and "2 of 2 ranks answered" in named.stdout, f"{named.returncode}: {named.stdout}")


def off(options, transport):
    with Job(options.program, 2, transport, {"FABRING_STATUS": "no"}) as job:
        job.start_all([LOOP])
        job.wait_event("step", 30)
        require(not door_names(job), "a rank listens with FABRING_STATUS=no")
        done, _ = ask(options, ["status", job.settings["FABRING_JOB_ID"]])
        require(done.returncode == 3 and "no job" in done.stderr, f"{done.returncode}: {done.stderr}")


def nothing_left(options, transport):
    with Job(options.program, 2, transport) as job:
        job.start_all([LOOP])
        job.wait_event("step", 30)
        require(len(door_names(job)) == 2, "no sockets to begin with")
        for rank in job.ranks:
            rank.signal(signal.SIGKILL)
        job.wait_exit(10)
        require(not door_names(job), "a socket is left behind")


def elsewhere(options, transport):
    """Four ranks on two hosts, asked on the first: the other host's come over the control plane."""
    with hosts.Hosts(2) as network:
        with Job(options.program, 4, transport, {}, network.address(0)) as job:
            for rank in range(4):
                job.start(rank, ["serve"], prefix=network.command_prefix(rank // 2))
            job.wait_event("serving", 30)
            here = network.command_prefix(0)
            seen = status(options, job, here)
            require([r["host"] for r in seen["ranks"]] == ["host0", "host0", "host1", "host1"], f"{seen['ranks']}")
            require(all(r["answer"] == "answered" for r in seen["ranks"]), f"{seen['ranks']}")
            for rank in job.others(3):
                rank.say(BIG)
            finding = found(options, job, "hang.never_entered", 3, ["ranks 0-2"], prefix=here)
            require("host1" in finding["where"], finding["where"])
            job.ranks[3].signal(signal.SIGSTOP)
            finding = found_silent(options, job, 3, here)
            require("host1" in finding["where"], finding["where"])
            job.ranks[3].signal(signal.SIGCONT)


def found_silent(options, job, rank, prefix):
    return until("its silence", 15, lambda: expect(hang(options, job, prefix=prefix)[1], "hang.silent", rank,
                                                   ["dead or partitioned"]))


def main():
    options = arguments(__doc__, runs=1, several_hosts=True)
    try:
        hosts.check_possible()
        several = [elsewhere]
    except hosts.NotPossible as reason:
        print(f"several hosts: not here, {reason}")
        several = []
    cases = [healthy, never_enters, shrunk, stopped, all_stopped, mismatched, crossed, other_tags, stuck, refused, hostile, nameless, off, nothing_left, *several]
    # What is asked does not depend on the transport; the cases take turns.
    run_cases([(f"{case.__name__.replace('_', ' ')}, {transport}", lambda c=case, t=transport: c(options, t))
               for number, case in enumerate(cases)
               for transport in (options.transports if options.runs > 1 else [options.transports[number % len(options.transports)]])
               if options.only in case.__name__], at_once=4)


if __name__ == "__main__":
    main()
