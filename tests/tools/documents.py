#!/usr/bin/env python3
"""What README.md, CHANGELOG.md and docs/ name must be there: links, files, folders; and the table of folders in docs/architecture.md
must have every source folder. What a page installs with pip goes into an environment. What sources have that a page must name is told.py's.
Run: documents.py ROOT, or documents.py --self-test."""
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


def faults(root):
    names = {p.name for top in top_folders(root) for p in (root / top).rglob("*") if p.is_file()}
    found = []
    for page in [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]:
        text = page.read_text()
        wrong = [*bad_links(root, page, text), *bad_paths(root, text, names), *bad_pip(text)]
        if page == root / "docs" / "architecture.md":
            wrong += bad_table(root, text)
        found += [f"{page.relative_to(root)}: {each}" for each in wrong]
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


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        self_test()
    else:
        found = faults(pathlib.Path(sys.argv[1]))
        if found:
            sys.exit("\n".join(found))
