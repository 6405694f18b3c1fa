#!/usr/bin/env python3
"""What libfabring.so exports. Run: symbols.py LIBRARY LIST [--nm NM].

C names are exactly those of the list, which is the ABI: a name is added with its function, and taken away with a
new SOVERSION. C++ names are Fabring's own. And the library binds to itself: with two copies in a process each calls its own.
"""
import argparse
import re
import subprocess
import sys


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("list")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--readelf", default="readelf")
    arguments = parser.parse_args()
    wrong = []

    lines = output_of(arguments.nm, "-D", "--defined-only", "--format=posix", arguments.library).splitlines()
    exported = {line.split()[0].split("@")[0]: line.split()[1] for line in lines}
    with open(arguments.list, encoding="utf-8") as file:
        listed = [line for line in file.read().splitlines() if line and not line.startswith("#")]
    if listed != sorted(set(listed)):
        wrong.append(f"{arguments.list} is not sorted, or has a name twice")
    c_names = {name for name in exported if not name.startswith("_Z")}
    wrong += [f"exported, but not in the list: {name}" for name in sorted(c_names - set(listed))]
    wrong += [f"in the list, but not exported: {name}" for name in sorted(set(listed) - c_names)]

    # fabring::name, with or without const; typeinfo and tables of its classes.
    ours = re.compile(r"_Z(N|NK|TI|TS|TV|TIN|TSN|TVN)7fabring")
    wrong += [f"exported, but not Fabring's: {name}" for name in sorted(set(exported) - c_names)
              if not ours.match(name)]
    wrong += [f"one for the whole process: {name}" for name, kind in sorted(exported.items()) if kind == "u"]

    for line in output_of(arguments.readelf, "--wide", "--relocs", arguments.library).splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[4].split("@")[0] in exported:
            wrong.append(f"another copy could take its place: {fields[4]} ({fields[2]})")

    print("\n".join(wrong) or f"{len(listed)} C functions, {len(exported) - len(c_names)} of C++")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
