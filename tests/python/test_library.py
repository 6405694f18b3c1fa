"""Which copy of the library the package runs on: the loader may have another one for it than its own."""

import subprocess
import sys

from conftest import CLEAN


def test_an_older_library_is_refused(tmp_path):
    older = tmp_path / "older.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", older], input='const char* fabring_version(void) { return "0.0.9"; }',
                   text=True, check=True, timeout=60)
    ended = subprocess.run([sys.executable, "-c", "import fabring"], env={**CLEAN, "LD_PRELOAD": str(older)}, timeout=60, capture_output=True,
                           text=True)
    assert ended.returncode == 1 and f"older library, libfabring 0.0.9 from {older}" in ended.stderr, ended


def test_a_library_without_a_function_of_the_package_is_refused(tmp_path):
    """Before it can be asked for its version: the loader wants all functions at once."""
    older = tmp_path / "libfabring.so.0.1"
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{older.name}", "-x", "c", "-", "-o", older],
                   input='const char* fabring_version(void) { return "0.0.9"; }', text=True, check=True, timeout=60)
    for loaded_by in ({"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"}, {"LD_PRELOAD": str(older)}):
        ended = subprocess.run([sys.executable, "-c", "import fabring"], env={**CLEAN, **loaded_by}, timeout=60, capture_output=True, text=True)
        said = ended.stderr.splitlines()[-1]
        assert ended.returncode == 1 and "older library, a libfabring without fabring_" in said and f" from {older}: " in said, ended
