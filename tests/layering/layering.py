#!/usr/bin/env python3
"""Who may include whom, which folder may include which library, and do headers hold what they say.
Run: layering.py ROOT, or layering.py --self-test."""
import pathlib
import re
import sys
import tempfile

# Folder -> folders whose headers it may include (besides itself, the public headers and runtime/base). A folder within
# another one of these is a part by itself.
PLANS = {"collectives", "collectives/choice", "collectives/cost"}
ALLOWED = {
    "include/fabring": set(),
    "runtime/base": set(),
    "topology": set(),
    "transports": set(),
    "transports/fabric": {"transports"},
    "transports/inproc": {"transports"},
    "transports/joint": {"transports", "transports/shm"},
    "transports/rails": {"transports"},
    "transports/shm": {"transports"},
    "transports/tcp": {"transports"},
    "device": set(),
    "device/cuda": {"device"},
    "collectives": {"collectives/check"},
    "collectives/algorithms": {"collectives"},
    "collectives/check": {"collectives"},
    "collectives/choice": {"collectives", "collectives/cost"},
    "collectives/cost": {"collectives", "collectives/algorithms"},
    "collectives/reduce": set(),
    "simulation": {"collectives", "collectives/cost"},
    "runtime/bootstrap": {"topology"},
    "runtime/control": {"runtime/bootstrap", "topology"},
    "runtime/status": {"runtime/control"},
    "runtime/transfer": {"transports"},
    "runtime/memory": {"topology", "transports", "device"},
    "runtime/engine": {"runtime/control", "runtime/status", "runtime/transfer", "runtime/memory", "transports", "device",
                       "collectives/reduce", *PLANS},
    "runtime/startup": {"runtime/bootstrap", "runtime/control", "runtime/memory", "runtime/engine", "topology", "transports",
                        "transports/fabric", "transports/inproc", "transports/joint", "transports/rails", "transports/shm",
                        "transports/tcp", "device/cuda", *PLANS},
    "runtime/api": {"runtime/engine", "runtime/startup"},
    "tools": {"collectives", "tools/fabring/doctor", "tools/fabring/launch", "runtime/bootstrap", "runtime/startup"},
    "tools/fabring/launch": {"tools", "runtime/bootstrap", "topology"},
    "tools/fabring/simulate": {"tools", "runtime/startup", "simulation", *PLANS},
    "tools/fabring/plan": {"tools", "tools/fabring/simulate", "runtime/engine", "runtime/startup", "simulation", *PLANS},
    "tools/fabring/perf": {"tools", "tools/fabring/launch", "tools/fabring/plan", "runtime/bootstrap", "runtime/engine", "device",
                           "device/cuda", *PLANS},
    "tools/fabring/status": {"tools", "runtime/engine", "runtime/status", "topology"},
    "tools/fabring/topo": {"tools", "runtime/startup", "topology"},
    "tools/fabring/doctor": {"tools", "tools/fabring/launch", "tools/fabring/perf", "tools/fabring/status", "tools/fabring/topo",
                             "runtime/bootstrap", "runtime/startup", "topology", "transports/fabric", "transports/rails",
                             "transports/shm", "transports/tcp"},
    "bindings": set(),
    "bindings/c": set(),
    "bindings/python": {"bindings"},
    "bindings/torch": {"bindings"},
    "examples": set(),
}
PUBLIC_ONLY = {"include/fabring", "bindings", "bindings/python", "bindings/torch", "examples"}  # not even runtime/base
# Library header pattern -> the one folder that may include it, and single files elsewhere.
LIBRARIES = {
    r"boost/|asio": "runtime/base/net",
    r"rdma/": "transports/fabric",
    r"hwloc": "topology",
    r"hwy/": "collectives/reduce",
    r"openssl/": "runtime/base",
    r"CLI/": "tools",
    r"nlohmann/": ("tools", "runtime/startup/machine_file.cpp", "collectives/json_text.cpp", "collectives/plan_json.cpp"),
    r"Eigen": "examples",
    r"cuda": "device/cuda",
    r"nanobind/": "bindings/python",
    r"(torch|ATen|c10|pybind11)/": "bindings/torch",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def folder_of(path):
    """The longest known folder that holds this path."""
    found = [name for name in ALLOWED if path == name or path.startswith(name + "/")]
    return max(found, key=len) if found else None


def violations(root):
    found = []
    for name in sorted({n.split("/")[0] for n in ALLOWED}):
        for file in sorted((root / name).rglob("*")):
            if file.suffix not in (".hpp", ".cpp", ".h", ".c", ".cu"):
                continue
            relative = file.relative_to(root).as_posix()
            own = folder_of(relative)
            for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match or own is None:
                    continue
                header = match.group(1)
                for pattern, home in LIBRARIES.items():
                    home, *files = (home,) if isinstance(home, str) else home
                    if re.match(pattern, header) and not relative.startswith(home + "/") and relative not in files:
                        found.append(f"{relative}:{number}: includes {header}; only {', '.join([home + '/', *files])} may")
                target = folder_of("include/" + header if header.startswith("fabring/") else header)
                if target is None or target == own or target == "include/fabring":
                    continue
                allowed = ALLOWED[own] | (set() if own in PUBLIC_ONLY else {"runtime/base"})
                if target not in allowed:
                    found.append(f"{relative}:{number}: {own}/ may not include {header}")
    return found


NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.M)
TYPE = re.compile(r"^(?:struct|class|enum(?: class)?) (\w+)(?: final)?(?: :[^{;]*)?\s*\{", re.M)


def twice_defined(root):
    """Types of one name in one namespace in two headers: the linker takes either, and the program breaks at run time."""
    places = {}
    for name in sorted({n.split("/")[0] for n in ALLOWED}):
        for file in sorted((root / name).rglob("*.hpp")):
            text = file.read_text(errors="replace")
            for match in TYPE.finditer(text):
                scope = "::".join(n.group(1) for n in NAMESPACE.finditer(text, 0, match.start()))
                places.setdefault(f"{scope}::{match.group(1)}", set()).add(file.relative_to(root).as_posix())
    return [f"{' and '.join(sorted(files))}: both define {name}" for name, files in sorted(places.items()) if len(files) > 1]


HEAD = re.compile(r"// ([A-Za-z_][\w:]*(?:\(\))?(?:, [A-Za-z_]\w*)*): ")
NO_NAMES = {"GPUDirect"}  # the field's, with which a head may begin


def wrong_heads(root):
    """A header that begins with "// Name: ..." has that type or function, or its source has the class behind a factory."""
    for name in sorted({n.split("/")[0] for n in ALLOWED} | {"tests", "benchmarks"}):
        for file in sorted((root / name).rglob("*.hpp")):
            text = file.read_text(errors="replace")
            first = next((line for line in text.splitlines() if line.startswith("//")), "")
            head = HEAD.match(first)
            if not head:
                continue
            source = file.with_suffix(".cpp")
            code = re.sub(r"//.*", "", text + (source.read_text(errors="replace") if source.exists() else ""))
            for each in head.group(1).split(", "):
                word = each.removesuffix("()").split("::")[-1]
                there = re.search(rf"\b(?:class|struct|enum class|using) (?:\w+::)*{word}\b(?!;)|\b{word}\(|#define {word}\b", code)
                if not there and word not in NO_NAMES:
                    yield f"{file.relative_to(root).as_posix()}: its head is about {each}, which it does not have"


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        cases = {
            "collectives/a.cpp": '#include "transports/endpoint.hpp"\n',
            "runtime/base/b.cpp": '#include "runtime/engine/execution/execution.hpp"\n',
            "transports/tcp/c.cpp": "#include <boost/asio.hpp>\n",
            "include/fabring/d.hpp": '#include "runtime/base/log.hpp"\n',
            "examples/e.cpp": '#include "runtime/base/log.hpp"\n',
            "bindings/c/h.cpp": '#include "runtime/engine/execution/execution.hpp"\n',
            "runtime/transfer/l.cpp": '#include "runtime/engine/engine_core.hpp"\n',
            "runtime/control/m.cpp": '#include "runtime/startup/startup.hpp"\n',
            "transports/tcp/n.cpp": '#include "transports/shm/peer.hpp"\n',
            "tools/fabring/launch/o.cpp": '#include "tools/fabring/doctor/finding.hpp"\n',
        }
        fine = {
            "runtime/engine/f.cpp": '#include "transports/endpoint.hpp"\n#include "fabring/types.hpp"\n',
            "tools/g.cpp": "#include <CLI/CLI.hpp>\n",
        }
        for path, text in {**cases, **fine}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        found = violations(root)
        for path in cases:
            assert any(line.startswith(path) for line in found), f"not found: {path}"
        assert len(found) == len(cases), found
        assert not twice_defined(root)
        (root / "tools/i.hpp").write_text("namespace fabring::tools {\nstruct Facts {\n};\n}\n")
        (root / "tools/j.hpp").write_text("namespace fabring {\nnamespace tools {\nclass Facts : Base {\n};\n}\n}\n")
        (root / "tools/k.hpp").write_text("namespace fabring::other {\nstruct Facts {\n};\n}\n")
        assert len(twice_defined(root)) == 1, twice_defined(root)
        assert not list(wrong_heads(root))
        (root / "tools/p.hpp").write_text("// Box, make_box(): it.\nclass Box {\n};\nBox make_box();\n")
        (root / "tools/q.hpp").write_text("// Behind: it.\nvoid make();\n")
        (root / "tools/q.cpp").write_text("class Behind {\n};\n")
        (root / "tools/r.hpp").write_text("// Gone: it.\nclass Gone;\n// class Gone {\nvoid keep(Gone& gone);\n")
        (root / "tools/s.hpp").write_text("// gone(): it.\nvoid left();\n")
        assert [line.split(":")[0] for line in wrong_heads(root)] == ["tools/r.hpp", "tools/s.hpp"], list(wrong_heads(root))
    print("the check finds what it should")


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        self_test()
        sys.exit(0)
    tree = pathlib.Path(sys.argv[1])
    bad = violations(tree) + twice_defined(tree) + list(wrong_heads(tree))
    print("\n".join(bad) or "layers hold")
    sys.exit(1 if bad else 0)
