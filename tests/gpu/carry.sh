#!/usr/bin/env bash
# Makes build/carried/: the command and the libraries it needs, for tests/gpu/run.sh on a machine that can not build it.
#   tests/gpu/carry.sh [FABRING]
set -euo pipefail
cd "$(dirname "$0")/../.."
fabring=${1:-build/release/tools/fabring}
rm -rf build/carried
mkdir -p build/carried/lib
strip -o build/carried/fabring "$fabring"
# Not those of the C library: they belong to the machine.
ldd "$fabring" | awk '$3 ~ /^\// {print $3}' | grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' |
  while read -r library; do cp -L "$library" build/carried/lib/; done
du -sh build/carried | cut -f1
