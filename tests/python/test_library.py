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
