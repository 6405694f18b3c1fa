"""Bad input: each case gets one clear error, on every rank, with code, exit code and words, in bounded time."""

import dataclasses
import os
import re
import socket
import tempfile

from harness import Job, arguments, require, run_cases

OK = "ok"
LOOP = ["loop steps=2 sizes=4,65536", "leave"]


@dataclasses.dataclass
class Case:
    """How the ranks are started and what each must say. `code` and `words` are for all ranks, or a dict by rank; every
    word is a regular expression that the first error's text must hold. Code "ok" means that this rank ends well."""

    name: str
    code: object
    words: object = ()
    size: int = 2
    settings: dict = dataclasses.field(default_factory=dict)  # for all
    odd: dict = dataclasses.field(default_factory=dict)  # rank -> settings
    commands: object = None  # a list, or a dict by rank
    absent: tuple = ()  # ranks that are never started
    transport: str = "tcp"
    bound: float = 8.0
    warned: str = ""  # what rank 0 must warn of, once, and no other rank
    reported: str = ""  # what every rank must say of what it has found
    prepare: object = None  # called with (job, folder, case's open things)


def of(value, rank, otherwise):
    return value.get(rank, otherwise) if isinstance(value, dict) else value


def hold_port(job, folder, held):
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.listen()
    held.append(holder)
    job.settings["FABRING_MASTER_PORT"] = str(holder.getsockname()[1])


def secret_file(folder, name, text, mode=0o600):
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "w") as out:
        out.write(text)
    os.chmod(path, mode)
    return path


def secrets(first, second, mode=0o600):
    """Rank 0 has the first secret, rank 1 the second; None is none."""
    def prepare(job, folder, held):
        for rank, secret in enumerate((first, second)):
            if secret:
                job.odd_settings.setdefault(rank, {})["FABRING_SECRET_FILE"] = secret_file(folder, f"secret{rank}", secret, mode)
    return prepare


FAST = {"FABRING_RENDEZVOUS_TIMEOUT": "2"}
# What the ranks that did nothing wrong say when one never comes, because its own environment stopped it.
LATE = {0: "timeout"}

CASES = [
    # The environment.
    Case("no rank", {0: "timeout", 1: "invalid_argument"}, {0: ["rank 1"], 1: ["FABRING_RANK", "fabring run|torchrun"]},
         odd={1: {"FABRING_RANK": None}}, settings=FAST),
    Case("rank is no number", {0: "timeout", 1: "invalid_argument"}, {0: ["rank 1"], 1: ["FABRING_RANK", "two"]},
         odd={1: {"FABRING_RANK": "two"}}, settings=FAST),
    Case("rank out of range", {0: "timeout", 1: "invalid_argument"}, {0: ["rank 1"], 1: ["FABRING_RANK|rank 7", "0 (to|\\.\\.\\.) 1"]},
         odd={1: {"FABRING_RANK": "7"}}, settings=FAST),
    Case("two ranks with one number", "invalid_argument", ["rank 1", "twice|same", "FABRING_RANK"], size=3,
         odd={2: {"FABRING_RANK": "1"}}),
    Case("another world size on one rank", ("mismatch", "invalid_argument"), ["2", "3", "FABRING_WORLD_SIZE|world size"],
         odd={1: {"FABRING_WORLD_SIZE": "3"}}),
    Case("a setting that does not exist", "invalid_argument", ["FABRING_TRANPORT", "FABRING_TRANSPORT"],
         settings={"FABRING_TRANPORT": "tcp"}),
    Case("a size that is none", "invalid_argument", ["FABRING_SEGMENT_BYTES", "many"], settings={"FABRING_SEGMENT_BYTES": "many"}),
    Case("a transport that does not exist", "invalid_argument", ["FABRING_TRANSPORT", "tpc", "tcp"],
         settings={"FABRING_TRANSPORT": "tpc"}),
    Case("a provider that does not exist", ("unavailable", "unsupported", "invalid_argument"), ["nosuch", "FABRING_PROVIDER"], transport="fabric",
         settings={"FABRING_PROVIDER": "nosuch"}),
    Case("a mistyped congestion control beside another network", "invalid_argument", ["FABRING_CONGESTION_CONTROL", "cubix", "did you mean 'cubic'"],
         settings={"FABRING_CONGESTION_CONTROL": "cubix", "FABRING_TRANSPORT": "shm,tcp"}),
    Case("an interface that does not exist", "unavailable",
         ["FABRING_INTERFACE=nosuch0: this host has no interface nosuch0", "it has (.*, )?lo"],
         settings={"FABRING_INTERFACE": "nosuch0"}),
    Case("an interface that does not exist beside one that does", OK, reported="interface lo 127.*; nosuch0: no such interface here",
         settings={"FABRING_INTERFACE": "lo,nosuch0"}),
    Case("an algorithm that does not exist", "invalid_argument", ["FABRING_ALGORITHM", "rings", "ring"],
         settings={"FABRING_ALGORITHM": "rings"}),
    Case("a machine that does not exist", "invalid_argument", ["FABRING_MACHINE", "1000g", "100g"],
         settings={"FABRING_MACHINE": "1000g"}),
    Case("a machine's file that is not there", "invalid_argument", ["FABRING_MACHINE", "/no/such/machine.json", "file"],
         settings={"FABRING_MACHINE": "/no/such/machine.json"}),
    Case("a machine's file only rank 0 needs", OK, odd={1: {"FABRING_MACHINE": "/no/such/machine.json"}}),
    Case("EFA asked for where no rank has it", OK, settings={"FABRING_TRANSPORT": "auto", "FABRING_PROVIDER": "efa", "FI_PROVIDER": "^psm,psm2,psm3,efa"},
         odd={rank: {"FABRING_HOST_ID": host} for rank, host in enumerate("ab")},
         warned="FABRING_PROVIDER=efa is not used: no rank can use it .*goes by tcp, plain sockets, instead; .*vpc.amazonaws.com/efa"),
    Case("EFA asked for by who asks for sockets first", OK, settings={"FABRING_TRANSPORT": "shm,tcp,fabric", "FABRING_PROVIDER": "efa", "FI_PROVIDER": "^psm,psm2,psm3,efa"},
         odd={rank: {"FABRING_HOST_ID": host} for rank, host in enumerate("ab")}),
    # Meeting.
    Case("the port is in use", {0: "unavailable", 1: ("timeout", "unavailable")},
         {0: ["in use", "FABRING_MASTER_PORT|port"], 1: ["127.0.0.1", "rank 0|master"]}, settings=FAST, prepare=hold_port),
    Case("the master's name does not resolve", ("unavailable", "timeout"), ["nosuch\\.invalid", "resolve"],
         settings={"FABRING_MASTER_ADDR": "nosuch.invalid", **FAST}),
    Case("another secret on one rank", {0: ("mismatch", "timeout"), 1: "mismatch"}, ["secret"],
         prepare=secrets("s" * 32, "t" * 32), settings=FAST),
    Case("a secret on rank 0 only", {0: ("mismatch", "timeout"), 1: "mismatch"}, ["secret", "FABRING_SECRET_FILE"],
         prepare=secrets("s" * 32, None), settings=FAST),
    Case("a secret on rank 1 only", {0: ("mismatch", "timeout"), 1: "mismatch"}, ["secret", "FABRING_SECRET_FILE"],
         prepare=secrets(None, "s" * 32), settings=FAST),
    Case("the same secret", OK, prepare=secrets("s" * 32, "s" * 32)),
    Case("a secret that others can read", "invalid_argument", ["secret0|secret1", "chmod|readable|mode"],
         prepare=secrets("s" * 32, "s" * 32, 0o644)),
    Case("another job", {0: ("mismatch", "timeout"), 1: ("mismatch", "timeout")}, ["job"], odd={1: {"FABRING_JOB_ID": "other"}}, settings=FAST),
    Case("a rank that never comes", "timeout", ["rank 2", "3"], size=3, absent=(2,), settings=FAST),
    Case("rank 0 never comes", "timeout", ["rank 0|master"], absent=(0,), settings=FAST),
    Case("different algorithms", "mismatch", ["FABRING_ALGORITHM|algorithm", "ring", "direct"],
         odd={0: {"FABRING_ALGORITHM": "ring"}, 1: {"FABRING_ALGORITHM": "direct"}}),
    Case("a rank alone on its node chooses as the others do", OK, size=3, settings={"FABRING_TRANSPORT": "shm,tcp"},
         odd={rank: {"FABRING_HOST_ID": host} for rank, host in enumerate("aba")},
         commands=["loop steps=8 sizes=4,1024,8192,16384,65536,262144,1048576,4194304", "leave"]),
    Case("no transport in common", ("mismatch", "unavailable", "unsupported"), ["tcp", "fabric", "FABRING_TRANSPORT|transport"],
         odd={0: {"FABRING_TRANSPORT": "tcp"}, 1: {"FABRING_TRANSPORT": "fabric"}}),
    # Calls.
    Case("bad buffers", OK, commands=["buffers"]),
    Case("a rank that never calls", "timeout", ["rank 2"], size=3, settings={"FABRING_TIMEOUT": "2"},
         commands={2: ["serve"], **{r: ["loop steps=1 sizes=65536"] for r in (0, 1)}}),
]


def mismatch(name, right, odd, words, transport, size=3):
    commands = {rank: [f"loop steps=2 sizes=64 seed=1", right] for rank in range(size)}
    commands[size - 1] = [f"loop steps=2 sizes=64 seed=1", odd]
    return Case(f"{name} ({transport}, {size} ranks)", "mismatch", words, size=size, commands=commands, transport=transport)


for transport in ("tcp", "fabric"):
    CASES += [
        mismatch("another count", "loop sizes=65536", "loop sizes=32768", ["16384", "8192"], transport),
        mismatch("another large count", "loop sizes=4194304", "loop sizes=4194300", ["1048576", "1048575"], transport),
        mismatch("another type", "loop sizes=4096 type=float32", "loop sizes=4096 type=int32", ["float32", "int32"], transport),
        mismatch("another operation", "loop sizes=4096 op=sum", "loop sizes=4096 op=max", ["sum", "max"], transport),
        mismatch("tiny against large", "loop sizes=4", "loop sizes=4194304", ["1", "1048576"], transport, size=4),
    ]


def check_refusals(rank):
    refused = [event for event in rank.events if event["event"] == "refused"]
    require(len(refused) == 12, f"rank {rank.number}: {len(refused)} of 12 wrong calls were answered")
    words = {"null input": "null", "null output": "null", "misaligned input": "aligned", "misaligned output": "aligned",
             "overlap": "overlap", "huge count": "memory"}
    for event in refused:
        require(event["code"] == "invalid_argument", f"rank {rank.number}: {event['name']} gave {event['code']}")
        require(words[event["name"]] in event["text"], f"rank {rank.number}: {event['name']}: {event['text']}")


def check(case, job):
    for index, rank in enumerate(job.ranks):
        number = job.started[index]
        warnings = [text for _, text in rank.log if "FABRING_PROVIDER" in text]
        require(len(warnings) == bool(case.warned and number == 0) and all(re.search(case.warned, text) for text in warnings),
                f"rank {number} warned: {warnings}")
        report = [line for event in rank.events if event["event"] == "ready" for line in event["report"]]
        require(not case.reported or any(re.search(case.reported, line) for line in report), f"rank {number} reports {report}")
        code = of(case.code, number, OK)
        codes = code if isinstance(code, tuple) else (code,)
        errors = rank.errors()
        if codes == (OK,):
            require(not errors and rank.exit_code == 0, f"rank {number} ended with {rank.exit_code}")
            check_refusals(rank) if case.commands == ["buffers"] else None
            continue
        require(rank.exit_code == 3, f"rank {number} ended with {rank.exit_code}, not 3")
        require(len(errors) == 1, f"rank {number} reported {len(errors)} errors")
        require(errors[0]["code"] in codes, f"rank {number}: {errors[0]['code']}, not {' or '.join(codes)}")
        for word in of(case.words, number, ()):
            require(re.search(word, errors[0]["text"]), f"rank {number}: nothing like '{word}' in: {errors[0]['text']}")


def run(options, case):
    held = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Job(options.program, case.size, case.transport, case.settings) as job:
                job.odd_settings = {rank: dict(settings) for rank, settings in case.odd.items()}
                if case.prepare:
                    case.prepare(job, folder, held)
                job.started = [rank for rank in range(case.size) if rank not in case.absent]
                for rank in job.started:
                    job.start(rank, of(case.commands, rank, LOOP) if case.commands else LOOP, job.odd_settings.get(rank))
                if case.name == "a rank that never calls":
                    # It learns of the failure when it calls at last.
                    for rank in job.ranks[:2]:
                        rank.wait_exit(case.bound)
                    job.ranks[2].say("loop steps=1 sizes=65536")
                    error = job.ranks[2].wait_event("error", 5)
                    require("rank 2" in error["text"], f"rank 2 is told something else: {error['text']}")
                    check(case, type("Two", (), {"ranks": job.ranks[:2], "started": [0, 1]}))
                    return
                job.wait_exit(case.bound)
                check(case, job)
        finally:
            for thing in held:
                thing.close()


def main():
    options = arguments(__doc__, runs=1)
    cases = [case for case in CASES if options.only in case.name and case.transport in options.transports]
    run_cases([(case.name, lambda case=case: run(options, case)) for case in cases for _ in range(options.runs)], at_once=4)


main()
