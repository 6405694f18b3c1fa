#!/usr/bin/env bash
# Makes build/carried/: the command and the libraries it needs, for tests/gpu/run.sh on a machine that can not build it.
# Carries fabring_gpu_check too, with the kernels inside it, and the Python package with fabring.torch, where they were built. Of
# that it is the machine's Python and PyTorch that must be those it was built for, in their first two numbers.
#   tests/gpu/carry.sh [FABRING]
set -euo pipefail
cd "$(dirname "$0")/../.."
fabring=${1:-build/release/tools/fabring}
rm -rf build/carried
mkdir -p build/carried/lib
strip -o build/carried/fabring "$fabring"
built=$(dirname "$fabring")/..
if [[ -x $built/tests/gpu/fabring_gpu_check ]]; then
  strip -o build/carried/fabring_gpu_check "$built/tests/gpu/fabring_gpu_check"
else
  echo "not carried: fabring_gpu_check is not built (cmake --build ... --target fabring_gpu_check); run.sh will not try kernels" >&2
fi
if [[ -d $built/python/fabring/torch ]]; then
  mkdir build/carried/python
  cp -RL "$built/python/fabring" build/carried/python/
  rm -rf build/carried/python/fabring/bin  # the command, once more
  find build/carried/python -name '*.so' -exec strip {} +
else
  echo "not carried: fabring.torch is not built (cmake --build ... --target python_package); run.sh will not try DDP and FSDP2" >&2
fi
# libfabric is loaded when it is first needed. Not the libraries of the C library, which belong to the machine, nor what Python has.
libfabric=$(/sbin/ldconfig -p | awk '$1 == "libfabric.so.1" && !found++ {print $NF}')
[[ -z $libfabric ]] || cp -L "$libfabric" build/carried/lib/
find build/carried -type f \( -name 'fabring*' -o -name '*.so*' \) -exec sh -c 'ldd "$1" 2>/dev/null || true' _ {} \; | sort -u |
  awk '$3 ~ /^\// {print $3}' | grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so|/site-packages/' |
  while read -r library; do cp -L "$library" build/carried/lib/; done
# The compiler's libraries are for a machine that has none, or older ones: its PyTorch may need newer ones than these.
mkdir build/carried/lib/compiler
mv build/carried/lib/libstdc++.so* build/carried/lib/libgcc_s.so* build/carried/lib/compiler/
strip build/carried/lib/libfabring.so* 2>/dev/null || true
du -sh build/carried | cut -f1
