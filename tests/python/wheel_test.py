"""Builds the wheel, installs it into a fresh virtual environment and runs an example from there, with nothing of the source
or build tree in sight. Its dependencies come from the environment that runs this: nothing is downloaded.

wheel_test.py ROOT WORK BUILD_TYPE
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

root, work, build_type = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
LIMIT_S = 1500
environment = {k: v for k, v in os.environ.items() if not k.startswith(("FABRING_", "PYTHONPATH"))}
# What the build tree compiled is taken from the compiler cache, if there is one: the same files, flags and depth.
environment.update(CCACHE_BASEDIR=str(root), CCACHE_NOHASHDIR="1", CC="cc", CXX="c++", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INDEX="1")
# No import of ours: torch finds the backend by its entry point.
SUM = """import torch
from torch import distributed
distributed.init_process_group("fabring")
ones = torch.ones(2) * (distributed.get_rank() + 1)
distributed.all_reduce(ones)
print("sum", ones.tolist(), flush=True)
distributed.destroy_process_group()
"""


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], env={**environment, **more.pop("env", {})}, timeout=LIMIT_S, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


shutil.rmtree(work, ignore_errors=True)
run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", work / "wheels",
    "-C", f"build-dir={root}/build/wheel-test", "-C", f"cmake.build-type={build_type}", "-C",
    "cmake.define.FABRING_WERROR=ON", root)
(wheel,) = (work / "wheels").glob("fabring-*.whl")
names = zipfile.ZipFile(wheel).namelist()
# Then the wheel has the backend, which needs 2.11 (bindings/torch).
with_torch = (importlib.util.find_spec("torch") is not None
              and tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) >= (2, 11))
for wanted in ("fabring/py.typed", "fabring/_core.pyi", "fabring/lib/libfabring.so.", "fabring/bin/fabring", "fabring/torch/__init__.py",
               "fabring_torch_autoload.py",  # torch loads it by its entry point, and fails where it is missing
               *(("fabring/torch/_backend.", "fabring/torch/_built_for.py") if with_torch else ())):
    assert any(name.startswith(wanted) for name in names), f"{wanted} is not in the wheel: {names}"
for notice in ("LICENSE", "THIRD_PARTY"):
    assert any(".dist-info/" in name and name.endswith("/" + notice) for name in names), f"{notice} is not in the wheel: {names}"
assert not any("tests" in name or name.endswith((".hpp", ".cpp")) for name in names), names

venv.create(work / "venv", with_pip=True)
python = work / "venv/bin/python"
site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
(site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
shutil.copy(root / "examples/python/allreduce.py", work)
shutil.rmtree(root / "build/wheel-test/python", ignore_errors=True)
told = run(python, "-m", "fabring.run", "-n", "3", "allreduce.py", cwd=work)
means = re.findall(r"of 3: mean (\S+), which should be (\S+)", told)
assert len(means) == 3 and all(mean == right for mean, right in means), told
if with_torch:
    (work / "sum.py").write_text(SUM)
    told = run(python, "-m", "fabring.run", "-n", "2", "sum.py", cwd=work)
    assert told.count("sum [3.0, 3.0]") == 2, told
told = run(work / "venv/bin/fabring", "--version", cwd=work)
assert told.startswith("fabring "), told
run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "fabring")
print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {len(names)} files")
