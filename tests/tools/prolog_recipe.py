#!/usr/bin/env python3
"""The prolog that docs/doctor.md shows, run with a doctor that ends with each exit code: only 0 and 3 let the host pass; and
with none at all. Run: prolog_recipe.py DOCTOR_MD"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

recipe = next(block for block in re.findall(r"^```\n(.*?)^```", pathlib.Path(sys.argv[1]).read_text(), re.M | re.S)
              if "doctor host --timeout" in block)
command = recipe.split()[0]
if not os.path.isabs(command):
    sys.exit(f"a prolog has no PATH, and the recipe says {command}")
with tempfile.TemporaryDirectory() as folder:
    stub = pathlib.Path(folder) / "fabring"
    for code in (None, 0, 1, 2, 3, 126, 127, 134, 137, 139):
        if code is not None:
            stub.write_text(f"#!/bin/sh\nexit {code}\n")
            stub.chmod(0o755)
        ended = subprocess.run(["sh", "-c", recipe.replace(command, str(stub))], timeout=20, capture_output=True).returncode
        if (ended == 0) != (code in (0, 3)):
            sys.exit(f"a doctor that ends with {code}: the prolog ends with {ended}")
