#!/usr/bin/env python3
"""The C++ that README.md, docs/ and the tops of the public headers show compiles as it stands, without a warning, after
what its page takes for granted. Run: snippets.py ROOT COMPILER, or snippets.py --self-test COMPILER."""
import pathlib
import re
import subprocess
import sys

README = "README.md"
FENCE = re.compile(r"^```cpp\n(.*?)^```", re.M | re.S)
EXAMPLE = re.compile(r"(?:^//   .*\n)+", re.M)

# What a reader has. A page that is not here starts with what README's example has made.
HAS = {
    README: "std::vector<float> grad; void compute_something_else();",
    "docs/algorithms.md": "fabring::Communicator world; std::string text; float* data = nullptr; std::size_t count = 0;",
    "docs/gpu.md": "fabring::Communicator world; void *grad = nullptr, *stream = nullptr; std::size_t n = 0; "
                   "void compute_something_else();",
    "include/fabring/communicator.hpp": "std::vector<float> gradients;",
    "include/fabring/operation.hpp": "using namespace fabring; Communicator world; void *weights = nullptr, *out = nullptr, "
                                     "*in = nullptr; std::size_t count = 0, n = 0; DataType type{}; Rank right = 0, left = 0;",
}
HAS_BESIDES = ("[[maybe_unused]] std::size_t count = 0; using namespace fabring; "
               "[[maybe_unused]] const auto report = [](const Status&) { return 1; };")


def snippets(name, text):
    """Line numbers and texts. Of a header, the examples above its first include."""
    if name.endswith(".md"):
        found = [(m.start(1), m.group(1)) for m in FENCE.finditer(text)]
    else:
        top = text.split("#include")[0]
        found = [(m.start(), re.sub(r"^//   ", "", m.group(), flags=re.M)) for m in EXAMPLE.finditer(top)]
    return [(text.count("\n", 0, at) + 1, code) for at, code in found]


def translation_unit(pages):
    lines = ["#include <fabring/fabring.hpp>", "#include <iostream>", "#include <memory_resource>", "#include <vector>"]
    readme = [HAS[README], *(code for _, code in snippets(README, pages[README]))]
    for name, text in pages.items():
        for number, code in snippets(name, text):
            before = [HAS[name]] if name in HAS else [*readme, HAS_BESIDES]
            code = re.sub(r"^#include.*$", "", code, flags=re.M)
            before = [re.sub(r"^#include.*$", "", each, flags=re.M) for each in before]
            scope = ["int program();", "int program() {", *before, "{", f'#line {number} "{name}"', code, "}",
                     "return 0;", "}"]
            lines += [f"namespace of_{len(lines)} {{", *scope, "}"]
    return "\n".join(lines) + "\n"


def complaints(root, compiler, pages):
    command = [compiler, "-x", "c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
               "-I", str(root / "include"), "-"]
    done = subprocess.run(command, input=translation_unit(pages), text=True, capture_output=True)
    return done.stderr if done.returncode else ""


def read_pages(root):
    files = [root / README, *sorted((root / "docs").glob("*.md")), *sorted((root / "include/fabring").glob("*.hpp"))]
    return {str(file.relative_to(root)): file.read_text() for file in files}


def self_test(root, compiler):
    """An ignored status and an engine that is not looked into are found."""
    pages = read_pages(root)
    name = "docs/memory.md"
    for right, wrong in (("fabring::Status done = world", "world"), ("memory(**engine)", "memory(*engine)")):
        spoilt = pages[name].replace(right, wrong)
        if spoilt == pages[name] or name not in complaints(root, compiler, pages | {name: spoilt}):
            sys.exit(f"not found in {name}: {wrong}")


root = pathlib.Path(__file__).resolve().parents[2]
if sys.argv[1] == "--self-test":
    self_test(root, sys.argv[2])
else:
    if wrong := complaints(pathlib.Path(sys.argv[1]), sys.argv[2], read_pages(pathlib.Path(sys.argv[1]))):
        sys.exit(wrong)
