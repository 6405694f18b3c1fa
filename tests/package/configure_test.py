"""What configuring decides: a tree with a torch that is a stand-in, of one version and then of another whose files are no
newer; with a library that is not among the system's; and without the PyTorch backend. Nothing is compiled.

configure_test.py ROOT WORK PYTHON
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

root, work, python = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
torch, tree = work / "packages/torch", work / "tree"
lent = tempfile.TemporaryDirectory()  # CMake takes what is below the source tree for a part of it
away = Path(lent.name)
environment = {**os.environ, "PYTHONPATH": str(torch.parent),
               "PKG_CONFIG_PATH": ":".join(filter(None, [str(away), os.environ.get("PKG_CONFIG_PATH")]))}
environment = {name: value for name, value in environment.items() if not name.startswith("FABRING_")}


def run(*words):
    done = subprocess.run([str(word) for word in words], env=environment, timeout=500, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def configure(version, with_torch):
    (torch / "version.py").write_text(f'__version__ = "{version}"\n')
    os.utime(torch / "version.py", (0, 0))
    said = run("cmake", "-S", root, "-B", tree, "-G", "Ninja", f"-DPython_EXECUTABLE={python}", f"-DFABRING_WITH_TORCH={with_torch}",
               "-DFABRING_BUILD_TESTS=OFF", "-DFABRING_BUILD_EXAMPLES=OFF", "-DFABRING_BUILD_TOOLS=OFF", "-DFABRING_WITH_CUDA_KERNELS=OFF")
    return said, (tree / "build.ninja").read_text()


def backends_flags(rules):
    """Of all its sources, as Ninja compares them."""
    found = re.findall(r"^build bindings/torch/CMakeFiles/fabring_torch\.dir/.*\n((?:  .*\n)+)", rules, re.M)
    return [line for one in found for line in one.splitlines() if line.startswith("  DEFINES")]


shutil.rmtree(work, ignore_errors=True)
torch.mkdir(parents=True)
(torch / "__init__.py").write_text("from .version import __version__\nfrom types import SimpleNamespace\n"
                                   "_C = SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)\n"
                                   "distributed = SimpleNamespace(is_available=lambda: True)\n")
libdir = Path(run("pkg-config", "--variable=libdir", "hwloc").strip())
(away / "libhwloc.so").symlink_to(libdir / "libhwloc.so")
described = Path(run("pkg-config", "--variable=pcfiledir", "hwloc").strip()) / "hwloc.pc"
(away / "hwloc.pc").write_text(re.sub("^libdir=.*", f"libdir={away}", described.read_text(), flags=re.M))

refused = subprocess.run(["cmake", "-S", root, "-B", work / "refused", "-G", "Ninja", "-DFABRING_WITH_PYTHON=OFF", "-DFABRING_WITH_TORCH=1"],
                         env=environment, timeout=500, text=True, capture_output=True)
assert refused.returncode != 0 and "FABRING_WITH_TORCH=ON" in refused.stderr and "FABRING_WITH_PYTHON=OFF" in refused.stderr, refused.stderr

said, rules = configure("2.12.0", "0")
assert not backends_flags(rules) and "FABRING_WITH_TORCH=OFF" in said, said
run("cmake", f"-DCMAKE_INSTALL_PREFIX={work}/installed", "-DCMAKE_INSTALL_COMPONENT=python", "-P", tree / "bindings/torch/cmake_install.cmake")
assert "NOT_BUILT" in (work / "installed/fabring/torch/__init__.py").read_text()
kept = re.findall(r'NEW_RPATH "(.*)"', (tree / "cmake/package/cmake_install.cmake").read_text())
assert kept and all(str(away) in folders.split(":") for folders in kept), kept

said, rules = configure("2.12.0", "true")
flags = backends_flags(rules)
assert flags, said
assert re.search(rf"^build build\.ninja:.* {re.escape(str(torch))}/version\.py", rules, re.M), "another torch would not be noticed"
said, rules = configure("2.13.0", "true")
assert "for torch 2.13.0" in said, said
assert not set(flags) & set(backends_flags(rules)), "objects that were compiled for torch 2.12 would be kept for 2.13"
