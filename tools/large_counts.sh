#!/usr/bin/env bash
# Counts above 2^32 elements and buffers above 4 GiB, every element checked: allreduce and all_gather of 4500 MiB of int8 on
# two ranks, in place, over tcp (or the transports given as arguments). Needs 10 GiB of free memory and some minutes; too
# much for a test.
set -euo pipefail
cd "$(dirname "$0")/.."
fabring=${FABRING_CLI:-build/dev/tools/fabring}
need=$((10 * 1024 * 1024)) # KiB
free=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
if ((free < need)); then
  echo "large_counts: needs 10 GiB of free memory, there are $((free / 1024 / 1024)) GiB" >&2
  exit 3
fi
for transport in "${@:-tcp}"; do
  for collective in allreduce all_gather; do
    echo "== $collective over $transport"
    "$fabring" perf "$collective" -n 2 --transport "$transport" -d int8 --sizes 4500M --in-place -i 1 -w 0
  done
done
