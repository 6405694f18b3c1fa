#!/usr/bin/env python3
"""A file reaches, over what it includes, a declaration of every type of the project that it names: the build that joins files
(FABRING_UNITY) does not notice one that leans on its neighbour. For the same reason whoever uses fmt::join includes the header
that has it in every fmt. Run: reach.py ROOT, or reach.py --self-test."""
import functools
import pathlib
import re
import sys
import tempfile

FOLDERS = ("include", "runtime", "topology", "transports", "device", "collectives", "simulation", "tools", "bindings", "examples",
           "benchmarks", "tests")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.S)
DECLARED = r"(?:struct|class|enum|enum class|union|concept|using) (?:FABRING_API |alignas\([^)]*\) )?([A-Z]\w*[a-z]\w*)\b(?!\s*::)"
TYPE = re.compile(r"\b" + DECLARED)
OUTER = re.compile(r"^" + DECLARED, re.M)  # what stands in a namespace is not indented
SUITE = re.compile(r"^(?:TEST|TEST_F|TEST_P|BENCHMARK|INSTANTIATE_\w+)\(.*", re.M)
BROUGHT = re.compile(r"\busing [\w:]+::([A-Z]\w*);")
PARAMETER = re.compile(r"\b(?:typename|class|auto|\w+)\s*(?:\.\.\.)?\s+([A-Z]\w*)\s*(?=[,>=])")
NAME = re.compile(r"(?<![\w:.>])(?:fabring::)?([A-Z]\w*[a-z]\w*)\b")


class Tree:
    def __init__(self, root):
        self.root = root
        files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*")) if file.suffix in (".hpp", ".cpp", ".h")]
        self.files = [file.relative_to(root).as_posix() for file in files]
        self.raw = {name: file.read_text(errors="replace") for name, file in zip(self.files, files)}
        self.code = {name: SUITE.sub("", TEXT.sub(" ", INCLUDE.sub("", text))) for name, text in self.raw.items()}
        self.types = {name: set(TYPE.findall(code)) for name, code in self.code.items()}
        self.homes = {}
        for name in self.files:
            if not name.endswith(".cpp") and not name.startswith(("tests/", "examples/", "benchmarks/")):
                for each in OUTER.findall(self.code[name]):
                    self.homes.setdefault(each, set()).add(name)

    def included(self, name):
        for each in INCLUDE.findall(self.raw[name]):
            for path in (each, "include/" + each, "examples/train/" + each, (pathlib.PurePosixPath(name).parent / each).as_posix()):
                if path in self.raw:
                    yield path

    @functools.cache
    def reached(self, name):
        seen, waiting = set(), [name]
        while waiting:
            here = waiting.pop()
            if here not in seen:
                seen.add(here)
                waiting += self.included(here)
        return seen

    def without_ranges(self):
        """fmt::join is in fmt/format.h too, until fmt 11."""
        for name in self.files:
            if "fmt::join" in self.code[name] and "<fmt/ranges.h>" not in self.raw[name]:
                yield f"{name}: uses fmt::join and does not include <fmt/ranges.h>"

    def out_of_reach(self):
        for name in self.files:
            known = set().union(*(self.types[each] for each in self.reached(name)))
            known |= {each for pattern in (PARAMETER, BROUGHT) for each in pattern.findall(self.code[name])}
            for each in sorted(set(NAME.findall(self.code[name])) - known):
                if each in self.homes:
                    where = " or ".join(sorted(self.homes[each]))
                    yield f"{name}: names {each} and reaches no declaration of it ({where})"


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        texts = {
            "runtime/base/box.hpp": "struct Box {};\nenum class Lid { Open };\n",
            "runtime/base/shelf.hpp": '#include "runtime/base/box.hpp"\nstruct Shelf { Box box; };\n',
            "runtime/base/right.cpp": '#include "runtime/base/shelf.hpp"\nBox box(Lid lid);  // and no Crate\nauto text = "Crate";\n',
            "runtime/base/ahead.cpp": "struct Box;\nvoid take(Box& box);\n",
            "runtime/base/own.cpp": "template <typename Lid> void close(Lid lid);\nauto size = Other::Box();\n",
            "runtime/base/crate.hpp": "class Crate {};\n",
            "runtime/base/wrong.hpp": "Crate take(int crate);\n",
            "runtime/base/wrong.cpp": '#include "runtime/base/box.hpp"\nstd::optional<Crate> crate;\n',
        }
        for path, text in texts.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / "runtime/base/joined.cpp").write_text('#include <fmt/format.h>\nauto text = fmt::join(parts, ", ");\n')
        assert [line.split(":")[0] for line in Tree(root).without_ranges()] == ["runtime/base/joined.cpp"]
        found = [line.split(":")[0] for line in Tree(root).out_of_reach()]
        assert found == ["runtime/base/wrong.cpp", "runtime/base/wrong.hpp"], found
    print("the check finds what it should")


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        self_test()
        sys.exit(0)
    tree = Tree(pathlib.Path(sys.argv[1]))
    bad = [*tree.out_of_reach(), *tree.without_ranges()]
    print("\n".join(bad) or "all types are in reach")
    sys.exit(1 if bad else 0)
