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


def refuse(words, *options):
    shutil.rmtree(work / "refused", ignore_errors=True)
    refused = subprocess.run(["cmake", "-S", root, "-B", work / "refused", "-G", "Ninja", *options],
                             env=environment, timeout=500, text=True, capture_output=True)
    said = re.sub(r"\s+", " ", refused.stderr)  # CMake wraps its errors
    assert refused.returncode != 0 and all(word in said for word in words), refused.stderr


def move(package, name, file):
    """To the folder `away`, where its library is a link to this file, of its own folder or another."""
    described, libdir = (Path(subprocess.check_output(["pkg-config", f"--variable={folder}", package], text=True).strip())
                         for folder in ("pcfiledir", "libdir"))
    (away / name).unlink(missing_ok=True)
    (away / name).symlink_to(libdir / file)
    (away / f"{package}.pc").write_text(re.sub("^libdir=.*", f"libdir={away}", (described / f"{package}.pc").read_text(), flags=re.M))


def backends_flags(rules):
    """Of all its sources, as Ninja compares them."""
    found = re.findall(r"^build bindings/torch/CMakeFiles/fabring_torch\.dir/.*\n((?:  .*\n)+)", rules, re.M)
    return [line for one in found for line in one.splitlines() if line.startswith("  DEFINES")]


shutil.rmtree(work, ignore_errors=True)
torch.mkdir(parents=True)
(torch / "__init__.py").write_text("from .version import __version__\nfrom types import SimpleNamespace\n"
                                   "_C = SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)\n"
                                   "distributed = SimpleNamespace(is_available=lambda: True)\n")
move("hwloc", "libhwloc.so", "libhwloc.so")
refuse(["FABRING_WITH_TORCH=ON", "FABRING_WITH_PYTHON=OFF"], "-DFABRING_WITH_PYTHON=OFF", "-DFABRING_WITH_TORCH=1")
for package, debian in (("CLI11", "libcli11-dev"), ("nlohmann_json", "nlohmann-json3-dev")):
    refuse([debian, "FABRING_BUILD_TOOLS=OFF"], "-DFABRING_WITH_PYTHON=OFF", f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON")
has_fabric = subprocess.run(["pkg-config", "--exists", "libfabric"]).returncode == 0
if has_fabric:
    move("libfabric", "libfabric.so", away / "libhwloc.so")
    refuse(["no version of fi_getinfo", f"{away}/libfabric.so"], "-DFABRING_WITH_PYTHON=OFF")
    move("libfabric", "libfabric.so", "libfabric.so")

said, rules = configure("2.12.0", "0")
assert not backends_flags(rules) and "FABRING_WITH_TORCH=OFF" in said, said
run("cmake", f"-DCMAKE_INSTALL_PREFIX={work}/installed", "-DCMAKE_INSTALL_COMPONENT=python", "-P", tree / "bindings/torch/cmake_install.cmake")
assert "NOT_BUILT" in (work / "installed/fabring/torch/__init__.py").read_text()
if has_fabric:
    assert rf'FABRING_LIBFABRIC_FILE=\"{away}/libfabric.so.1\"' in rules
    assert re.search(r'FABRING_VERSION_OF_fi_getinfo=\\"FABRIC_[0-9.]+\\"', rules)
kept = re.findall(r'NEW_RPATH "(.*)"', (tree / "cmake/package/cmake_install.cmake").read_text())
assert kept and all(str(away) in folders.split(":") for folders in kept), kept

said, rules = configure("2.12.0", "true")
flags = backends_flags(rules)
assert flags, said
assert re.search(rf"^build build\.ninja:.* {re.escape(str(torch))}/version\.py", rules, re.M), "another torch would not be noticed"
said, rules = configure("2.13.0", "true")
assert "for torch 2.13.0" in said, said
assert not set(flags) & set(backends_flags(rules)), "objects that were compiled for torch 2.12 would be kept for 2.13"
