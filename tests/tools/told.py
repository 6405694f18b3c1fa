#!/usr/bin/env python3
"""What sources have that people look up must have a word in README.md or docs/: every finding of the doctor, every launcher, what is
called otherwise in other backends, every thread that programs get, every value of some enums, and the CMake that is needed.
Run: told.py ROOT, or told.py --self-test."""
import json
import pathlib
import re
import sys
import tempfile

from documents import CODE, FENCE

THREAD = re.compile(r'\bstart_(?:thread|detached)\(\s*"([^"]+)"')
FINDING = re.compile(r'"((?:bench|clock|container|environment|fabric|gpu|hang|limits|memory|names|net|nic|pci|processors)\.[a-z_]+)"')
ENUMS = {"RecordKind": "runtime/transfer/wire.hpp", "Arrival": "runtime/transfer/transfer.hpp", "Post": "transports/endpoint.hpp"}


def untold_findings(root):
    """What `fabring doctor` calls its findings must be in docs/doctor.md, as `family.name` or as `name` in the row of its
    family."""
    text = (root / "docs/doctor.md").read_text()
    told = set(CODE.findall(FENCE.sub("", text)))
    for row in re.findall(r"^\| `.*\|$", text, re.M):
        families, rest = row[2:].split(" | ", 1)
        told |= {f"{family}.{name}" for family in CODE.findall(families) for name in CODE.findall(rest)}
    sources = sorted((root / "tools/fabring").rglob("*.cpp"))
    for name in sorted({name for source in sources for name in FINDING.findall(source.read_text())} - told):
        yield f"docs/doctor.md has no word about the finding {name}"


def untold_names(root):
    """Variables by which launchers are known must be in docs/launchers.md, those of other backends that have a like of ours
    in docs/pytorch.md."""
    launchers = (root / "runtime/bootstrap/launchers.cpp").read_text()
    known = {name for body in re.findall(r"\.known_by = \{(.*?)\}", launchers, re.S)
             for name in re.findall(r'"([A-Z_]+)"', body)}
    others = re.findall(r'\{"([A-Z_]+)",\s*"FABRING_', (root / "tools/fabring/doctor/host_environment.cpp").read_text())
    for page, names in (("docs/launchers.md", known - {"SLURM_JOB_ID", "PMI_ID"}), ("docs/pytorch.md", others)):
        told = set(CODE.findall((root / page).read_text()))
        for name in sorted(set(names) - told):
            yield f"{page} has no word about {name}"
    if not known or not others:
        yield "the launchers' variables, or those of other backends, are not found in the sources any more"


def untold_threads(root):
    """The threads that a program gets must be in docs/threading.md, each under a name of its own: people look them up in
    ps and gdb. Those of our command end with it."""
    told = set(CODE.findall((root / "docs/threading.md").read_text()))
    names = [name for top in ("bindings", "collectives", "device", "runtime", "topology", "transports")
             for source in sorted((root / top).rglob("*.[ch]pp")) for name in THREAD.findall(source.read_text())]
    for name in sorted(set(names)):
        if name not in told:
            yield f"docs/threading.md has no word about the thread {name}"
        if names.count(name) > 1:
            yield f"{names.count(name)} threads are called {name}"


def untold_values(root):
    """What travels and how it is received has words that nobody can guess: docs/words.md has them, as `Enum::value`."""
    told = set(CODE.findall((root / "docs/words.md").read_text()))
    for name, header in ENUMS.items():
        body = re.search(rf"enum class {name}\b[^{{]*\{{(.*?)\}};", (root / header).read_text(), re.S)
        values = re.findall(r"(\w+)[^,]*(?:,|$)", re.sub(r"//.*", "", body.group(1)).strip()) if body else []
        if not values:
            yield f"{header} has no values of {name} any more"
        for value in values:
            if f"{name}::{value}" not in told:
                yield f"docs/words.md has no word about {name}::{value}"


def untold_cmake(root):
    """Who has an older CMake than it takes hears so: from README, and from CMakeLists.txt, which CMake 3.21 comes to only
    where it can read the presets."""
    needed = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", (root / "CMakeLists.txt").read_text()).group(1)
    if f"CMake {needed}" not in (root / "README.md").read_text():
        yield f"README.md has no word about CMake {needed}"
    if json.loads((root / "CMakePresets.json").read_text())["version"] > 3:
        yield "CMakePresets.json is of a version that CMakes from before 3.23 call unknown, instead of saying which one is needed"


def faults(root):
    checks = (untold_findings, untold_names, untold_threads, untold_values, untold_cmake)
    return [fault for check in checks for fault in check(root)]


def self_test_of_findings(root):
    (root / "docs").mkdir()
    (root / "tools/fabring/doctor").mkdir(parents=True)
    (root / "docs/doctor.md").write_text("| `net`, `nic` | `mtu` (small), `speed` |\n| `hang.link` | two |\n")
    (root / "tools/fabring/doctor/all.cpp").write_text('"nic.mtu" "hang.link" "net.speed" "hang.gone" "nic.link"')
    told = [fault.rsplit(" ", 1)[1] for fault in untold_findings(root)]
    if told != ["hang.gone", "nic.link"]:
        sys.exit(f"wanted hang.gone and nic.link, found {told}")


def self_test_of_threads(root):
    for name in ("docs", "runtime", "bindings"):
        (root / name).mkdir()
    (root / "docs/threading.md").write_text("| `ours-one`, `ours-two` |\n")
    (root / "runtime/one.cpp").write_text('start_thread("ours-one", f); start_thread("ours-gone", f);')
    (root / "bindings/two.hpp").write_text('start_detached(\n    "ours-two", f); start_thread("ours-one", f);')
    told = list(untold_threads(root))
    if told != ["docs/threading.md has no word about the thread ours-gone", "2 threads are called ours-one"]:
        sys.exit(f"wanted ours-gone and ours-one, found {told}")


def self_test_of_values(root):
    for name in ("docs", "runtime/transfer", "transports"):
        (root / name).mkdir(parents=True)
    (root / "runtime/transfer/wire.hpp").write_text(
        "enum class RecordKind : std::uint8_t {\n  data = 1,  ///< one, two\n  grant = 2,  ///< gone, too\n};\n")
    (root / "runtime/transfer/transfer.hpp").write_text("enum class Arrival : std::uint8_t { comes, by_ticket };\n")
    (root / "transports/endpoint.hpp").write_text("enum class Outcome { done };\n")
    (root / "docs/words.md").write_text("| `RecordKind::data` | `Arrival::comes` | grant, Arrival::by_ticket |\n")
    found = list(untold_values(root))
    wanted = ["RecordKind::grant", "Arrival::by_ticket", "no values of Post"]
    if len(found) != len(wanted) or not all(each in fault for each, fault in zip(wanted, found)):
        sys.exit(f"wanted {wanted}, found {found}")


if sys.argv[1] == "--self-test":
    for case in (self_test_of_findings, self_test_of_threads, self_test_of_values):
        with tempfile.TemporaryDirectory() as folder:
            case(pathlib.Path(folder))
else:
    found = faults(pathlib.Path(sys.argv[1]))
    if found:
        sys.exit("\n".join(found))
