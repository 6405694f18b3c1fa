#!/usr/bin/env python3
"""What README.md, CHANGELOG.md and docs/ name must be there: links, files, folders; and the table of folders in docs/architecture.md
must have every source folder. What a page installs with pip goes into an environment.
Every finding of the doctor, every launcher, what is called otherwise in other backends, every thread that programs get,
every value of some enums, and the CMake that is needed have a word. Run: documents.py ROOT, or documents.py --self-test."""
import json
import pathlib
import re
import sys
import tempfile

OF_OTHERS = {"cuda.h"}
NOT_SOURCE = {"build", "shared"}  # what building leaves behind, and what a checkout may be lent
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
SOURCE = re.compile(r"[\w.-]+\.(?:hpp|cpp|cu|h)$")
ROW = re.compile(r"^\| ((?:`[^`]+`(?:, )?)+) \|", re.M)
THREAD = re.compile(r'\bstart_(?:thread|detached)\(\s*"([^"]+)"')
FINDING = re.compile(r'"((?:bench|clock|container|environment|fabric|gpu|hang|limits|memory|names|net|nic|pci|processors)\.[a-z_]+)"')

ENUMS = {"RecordKind": "runtime/transfer/wire.hpp", "Arrival": "runtime/transfer/transfer.hpp", "Post": "transports/endpoint.hpp"}


def top_folders(root):
    return {p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith(".") and p.name not in NOT_SOURCE}


def anchors(text):
    """The names that a page's headings have in links."""
    found = set()
    for heading in re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.M):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def bad_links(root, page, text):
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists():
            yield f"links to {target}, which is not there"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield f"links to {target}: that page has no such heading"


def exists(root, word):
    """A path of the tree, or as an #include names a public header."""
    if "*" in word:
        return any(root.glob(word))
    return (root / word).exists() or (root / "include" / word).exists()


def bad_paths(root, text, names):
    """Words in code that begin as paths of the tree do, or are names of sources."""
    tops = top_folders(root) | {"fabring"}
    spans = CODE.findall(FENCE.sub("", text)) + FENCE.findall(text)
    for word in {w for span in spans for w in re.findall(r"[\w.*/+-]+", span)}:
        word = word.rstrip(".:")
        top, slash, rest = word.partition("/")
        if slash and top in tops and rest:
            if not exists(root, word) and (top != "fabring" or SOURCE.search(word)):
                yield f"names {word}, which is not there"
        elif top == "..":
            yield f"names {word}, which is not of this tree"
        elif not slash and SOURCE.fullmatch(word) and word not in names | OF_OTHERS:
            yield f"names {word}, and no file is called that"


def bad_table(root, text):
    """Every row's folder is there, and every source folder has a row: itself, or else each folder in it."""
    section = text.split("## The house")[-1].split("\n## ")[0]
    rows = {word.rstrip("/") for cell in ROW.findall(section) for word in CODE.findall(cell)}
    for row in sorted(rows):
        if not (root / row).is_dir():
            yield f"the table of folders has {row}/, which is not there"
    for top in sorted(top_folders(root)):
        if top in rows:
            continue
        below = sorted(p for p in (root / top).iterdir() if p.is_dir() and p.name != "__pycache__")
        divided = any(row.startswith(top + "/") for row in rows)
        for folder in below if divided else [root / top]:
            if folder.relative_to(root).as_posix() in rows:
                continue
            yield f"the table of folders has no row for {folder.relative_to(root).as_posix()}/"


def bad_pip(text):
    """Debian's Python refuses pip outside an environment (externally managed), and has none on a fresh machine."""
    blocks = "".join(FENCE.findall(text))
    pip = re.search(r"^pip install", blocks, re.M)
    if pip and not re.search(r"^python3 -m venv .*activate", blocks[: pip.start()], re.M):
        yield "installs with pip and says nowhere before how to make an environment (python3 -m venv)"


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
    known = {name for body in re.findall(r"_present\(const Environment& e\) \{(.*?)\}", launchers, re.S)
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
    names = {p.name for top in top_folders(root) for p in (root / top).rglob("*") if p.is_file()}
    found = []
    for page in [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]:
        text = page.read_text()
        wrong = [*bad_links(root, page, text), *bad_paths(root, text, names), *bad_pip(text)]
        if page == root / "docs" / "architecture.md":
            wrong += bad_table(root, text)
        found += [f"{page.relative_to(root)}: {each}" for each in wrong]
    if (root / "tools/fabring/doctor").is_dir():
        found += [*untold_findings(root), *untold_names(root), *untold_threads(root)]
    if (root / "runtime/transfer").is_dir():
        found += untold_values(root)
    if (root / "CMakePresets.json").is_file():
        found += untold_cmake(root)
    return found


def self_test():
    table = "# House\n\n## The house\n\n| folder | what |\n|---|---|\n| `core/` | it |\n| `docs/` | this |\n"
    part = "| `more/part/` | a part |\n"
    cases = {
        "": None,
        "[there](architecture.md#the-house) `core/one.cpp` `one.cpp` [web](https://a/b)\n": None,
        "[gone](gone.md)": "links to gone.md",
        "[part](architecture.md#no-such)": "no such heading",
        "`core/two.cpp`": "names core/two.cpp",
        "`two.cpp`": "no file is called that",
        "```\ncore/run.sh 4\n```\n": "names core/run.sh",
        "`../elsewhere/x`": "not of this tree",
        "```\npython3 -m venv e && . e/bin/activate\npip install .\n```\n": None,
        "```\npip install .\n```\n": "how to make an environment",
    }
    for text, expected in cases.items():
        for missing_row in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder)
                for name in ("core", "docs", "more/part"):
                    (root / name).mkdir(parents=True)
                (root / "core/one.cpp").write_text("")
                (root / "README.md").write_text("[how](docs/architecture.md)")
                (root / "CHANGELOG.md").write_text("[more](docs/page.md)")
                (root / "docs/architecture.md").write_text(table + ("" if missing_row else part))
                (root / "docs/page.md").write_text(text)
                found = faults(root)
                wanted = [w for w in (expected, "no row for more/" if missing_row else None) if w]
                ok = len(found) == len(wanted) and all(any(w in f for f in found) for w in wanted)
                if not ok:
                    sys.exit(f"{text!r}: wanted {wanted}, found {found}")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "tools/fabring/doctor").mkdir(parents=True)
        (root / "docs/doctor.md").write_text("| `net`, `nic` | `mtu` (small), `speed` |\n| `hang.link` | two |\n")
        (root / "tools/fabring/doctor/all.cpp").write_text('"nic.mtu" "hang.link" "net.speed" "hang.gone" "nic.link"')
        told = [fault.rsplit(" ", 1)[1] for fault in untold_findings(root)]
        if told != ["hang.gone", "nic.link"]:
            sys.exit(f"wanted hang.gone and nic.link, found {told}")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("docs", "runtime", "bindings"):
            (root / name).mkdir()
        (root / "docs/threading.md").write_text("| `ours-one`, `ours-two` |\n")
        (root / "runtime/one.cpp").write_text('start_thread("ours-one", f); start_thread("ours-gone", f);')
        (root / "bindings/two.hpp").write_text('start_detached(\n    "ours-two", f); start_thread("ours-one", f);')
        told = list(untold_threads(root))
        if told != ["docs/threading.md has no word about the thread ours-gone", "2 threads are called ours-one"]:
            sys.exit(f"wanted ours-gone and ours-one, found {told}")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
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
    self_test()
else:
    found = faults(pathlib.Path(sys.argv[1]))
    if found:
        sys.exit("\n".join(found))
