#!/usr/bin/env bash
# Counts above 2^32 elements and buffers above 4 GiB, every element checked: allreduce, all_gather and reduce_scatter in place and alltoall
# of 4500 MiB of int8 on two ranks, over tcp, shm and fabric if it is built (or the transports given as arguments). Needs 10 GiB of free memory (alltoall
# 20 GiB, or it is left out) and some minutes of each; too much for a test, which has far_blocks_test.cpp.
set -euo pipefail
for word in "$@"; do
  case $word in
    -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;;
    tcp | shm | fabric) ;;
    *) echo "large_counts.sh: '$word' is none of the transports tcp, shm and fabric; --help says what it does" >&2; exit 2 ;;
  esac
done
cd "$(dirname "$0")/.."
fabring=${FABRING_CLI:-build/dev/tools/fabring}
command -v "$fabring" >/dev/null || { echo "large_counts.sh: no $fabring: build it first (tools/test.sh, or cmake --build build/dev --target fabring-cli)" >&2; exit 3; }
left_out=0
measure() { # COLLECTIVE TRANSPORT GIB OPTION ...
  local free
  free=$(($(awk '/^MemAvailable:/ {print $2}' /proc/meminfo) / 1024 / 1024))
  if ((free < $3)); then
    echo "large_counts: $1 needs $3 GiB of free memory, there are $free GiB: left out" >&2
    left_out=1
    return
  fi
  echo "== $1 over $2"
  "$fabring" perf "$1" -n 2 --transport "$2" -d int8 --sizes 4500M -i 1 -w 0 --format plain "${@:4}"
}
if (($# == 0)); then
  set -- tcp shm
  if [[ $("$fabring" perf allreduce -n 2 --transport fabric --sizes 4 -i 1 -w 0 --format plain 2>&1) == *FABRING_WITH_FABRIC* ]]; then
    echo "large_counts: $fabring is built without fabric: left out" >&2
  else
    set -- tcp shm fabric
  fi
fi
for transport in "$@"; do
  for collective in allreduce all_gather reduce_scatter; do measure $collective "$transport" 10 --in-place; done
  measure alltoall "$transport" 20
  if [[ $transport == shm ]]; then measure allreduce shm 10 --in-place --memory mapped; fi
done
exit $((left_out ? 3 : 0))
