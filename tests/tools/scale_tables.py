#!/usr/bin/env python3
"""scale_tables.py FABRING docs/scale.md: the cells of its tables that take no time must be what the command prints."""
import json
import pathlib
import re
import subprocess
import sys

command, page = sys.argv[1], pathlib.Path(sys.argv[2]).read_text()
wrong = []


def table(begin):
    """Rows of numbers by ranks, and the algorithms of the columns, of the first table after this text."""
    lines = page[page.index(begin):].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| ranks"))
    rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines[first:]
            if line.startswith("|") and not line.startswith("|---")]
    end = next((i for i, line in enumerate(lines[first:]) if not line.startswith("|")), len(lines))
    rows = rows[:end - 1]
    return rows[0][1:], {int(row[0]): row[1:] for row in rows[1:]}


def simulated(*options):
    arguments = [command, "simulate", "allreduce", "--json", *options]
    return json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


def compare(where, ranks, algorithm, written, printed):
    if written != printed:
        wrong.append(f"{where}, {ranks} ranks, {algorithm}: {written} is {printed} now")


def time_text(us):
    for unit, factor in (("us", 1), ("ms", 1e3), ("s", 1e6)):
        if us < factor * 1e3 or unit == "s":
            value = us / factor
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def quick(ranks, algorithm):  # one node stands for all, or there are few
    return algorithm == "hierarchical" or ranks <= (512 if algorithm == "ring" else 64)


for size, begin in (("64M", "## Allreduce, nodes of 8 ranks"), ("1G", "\n1 GiB:\n")):
    columns, rows = table(begin)
    machine = ""
    for column, title in enumerate(columns):
        machine, algorithm = title.split(": ") if ": " in title else (machine, title)
        worlds = [ranks for ranks in rows if quick(ranks, algorithm)]
        for each in simulated("--scale", ",".join(map(str, worlds)), "--machine", machine, "--sizes", size,
                              "--algorithm", algorithm):
            compare(f"{size} on {machine}", each["ranks"], algorithm, rows[each["ranks"]][column],
                    time_text(each["time_us"]))

columns, rows = table("ResNet-50 (")
for column, algorithm in enumerate(columns):
    worlds = [ranks for ranks in rows if quick(ranks, algorithm)]
    for each in simulated("--scale", ",".join(map(str, worlds)), "--machine", "100g", "--model", "resnet50",
                          "--compute-ms", "120", "--algorithm", algorithm):
        compare("ResNet-50", each["ranks"], algorithm, rows[each["ranks"]][column], f"{100 * each['efficiency']:.1f}")

if wrong:
    sys.exit("docs/scale.md is out of date; run the commands beside its tables again:\n" + "\n".join(wrong))
