#!/usr/bin/env bash
# Makes build/carried/: the command and the libraries it needs, for tests/gpu/run.sh on a machine that can not build it.
# Carries fabring_gpu_check too, with the kernels inside it, where it was built.
#   tests/gpu/carry.sh [FABRING]
set -euo pipefail
cd "$(dirname "$0")/../.."
fabring=${1:-build/release/tools/fabring}
rm -rf build/carried
mkdir -p build/carried/lib
strip -o build/carried/fabring "$fabring"
check=$(dirname "$fabring")/../tests/gpu/fabring_gpu_check
if [[ -x $check ]]; then
  strip -o build/carried/fabring_gpu_check "$check"
else
  echo "not carried: $check is not built (cmake --build ... --target fabring_gpu_check); run.sh will not try kernels" >&2
fi
# Not those of the C library: they belong to the machine.
ldd build/carried/fabring* | sort -u | awk '$3 ~ /^\// {print $3}' | grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' |
  while read -r library; do cp -L "$library" build/carried/lib/; done
du -sh build/carried | cut -f1
