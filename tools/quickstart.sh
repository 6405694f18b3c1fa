#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job on this host: a checked allreduce of 4 ranks over libfabric, flat
# and hierarchical, and through shared memory, and a small data-parallel training on real images. 4 to 6 minutes on 2 cores,
# most of it building.
set -euo pipefail
case ${1:-} in
  '') ;;
  -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
  *) echo "quickstart: it takes no options, but got: $*" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
tools/setup.sh
cmake --preset release -DFABRING_BUILD_TESTS=OFF -DFABRING_BUILD_BENCHMARKS=OFF -B build/quickstart >build-quickstart.log 2>&1 ||
  { cat build-quickstart.log; exit 3; }
echo "quickstart: building (log in build-quickstart.log)"
cmake --build build/quickstart >>build-quickstart.log 2>&1 || { tail -n 40 build-quickstart.log; exit 3; }
fabring=build/quickstart/tools/fabring
echo
echo "== 4 ranks, ring, over libfabric: $fabring perf allreduce -n 4 --transport fabric --algorithm ring"
"$fabring" perf allreduce -n 4 --transport fabric --algorithm ring --sizes 4,1K,64K,1M,16M
echo
echo "== 4 ranks as 2 nodes of 2, hierarchical: $fabring perf allreduce -n 4 --split-nodes 2 --transport fabric --algorithm hierarchical"
"$fabring" perf allreduce -n 4 --split-nodes 2 --transport fabric --algorithm hierarchical --sizes 64K,1M,16M
echo
echo "== 4 ranks of one host as a job runs them, through shared memory: $fabring perf allreduce -n 4"
"$fabring" perf allreduce -n 4 --sizes 4,1K,64K,1M,16M
echo
echo "== 4 ranks train a classifier on Fashion-MNIST: $fabring run -n 4 -- build/quickstart/examples/train/fabring-train"
FABRING_TRANSPORT=fabric "$fabring" run -n 4 -- build/quickstart/examples/train/fabring-train --verify
echo
echo "quickstart: all results were right. Next: README.md, or '$fabring --help'."
