#!/usr/bin/env bash
# Everything that needs a real GPU, in at most 8 minutes, on a machine that has the NVIDIA driver and perhaps nothing else.
#   tests/gpu/run.sh [FABRING]      the built command; without it one is looked for in build/, then built
# Figures go to stdout, a line each, to be copied to docs/performance.md. Exit code: 0 all right, 1 something was wrong, 3 could
# not run here.
set -uo pipefail
cd "$(dirname "$0")/../.."
begun=$SECONDS
limit=${GPU_TEST_SECONDS:-470}
left() { echo $((limit - (SECONDS - begun))); }
bad=0
part() { echo; echo "== $1 ($(left) s left)"; }

fabring=${1:-}
for candidate in build/release/tools/fabring build/dev/tools/fabring build/carried/fabring; do
  [[ -z $fabring && -x $candidate ]] && fabring=$candidate
done
if [[ -z $fabring ]]; then
  if ! command -v cmake >/dev/null || ! command -v g++ >/dev/null; then
    echo "no built fabring and no compiler: build here with tools/setup.sh, or carry build/carried/ (tests/gpu/carry.sh makes it)" >&2
    exit 3
  fi
  cmake --preset release -DFABRING_BUILD_TESTS=OFF -DFABRING_BUILD_BENCHMARKS=OFF >/dev/null &&
    timeout "$(left)" cmake --build build/release -j --target fabring-cli >/dev/null || { echo "the build failed" >&2; exit 3; }
  fabring=build/release/tools/fabring
fi
if [[ -d $(dirname "$fabring")/lib ]]; then
  export LD_LIBRARY_PATH=$(dirname "$fabring")/lib:${LD_LIBRARY_PATH:-}
fi
"$fabring" settings --markdown >/dev/null || { echo "$fabring does not run here" >&2; exit 3; }
if ! "$fabring" perf allreduce -n 1 --memory cuda --sizes 4 -i 1 -w 0 >/dev/null; then
  echo "no usable GPU here" >&2
  exit 3
fi

part "machine"
date -u '+%Y-%m-%d %H:%M UTC'
nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader 2>/dev/null
nproc

part "every collective over every transport, several ranks on one GPU"
transports=shm,tcp
"$fabring" perf barrier -n 2 --transport fabric -i 1 -w 0 >/dev/null 2>&1 && transports=shm,tcp,fabric
timeout 240 python3 -B tests/gpu/matrix.py --fabring "$fabring" --transports "$transports" --ranks 2,4,8 \
  --sizes 4,20K,3M --seconds 200 || bad=1

part "figures: allreduce of GPU memory beside the same of host memory"
for ranks in 2 4; do
  for memory in host cuda; do
    echo "-- $ranks ranks, shm, $memory"
    timeout 60 "$fabring" perf allreduce -n $ranks --transport shm --memory $memory --sizes 8,4K,64K,1M,16M,128M \
      --format plain -w 3 -i 10 --no-check || bad=1
  done
done

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
if [[ -n $sanitizer && $(left) -gt 60 ]]; then
  part "compute-sanitizer memcheck"
  timeout 60 "$sanitizer" --tool memcheck --error-exitcode 9 "$fabring" perf allreduce -n 1 --memory cuda --sizes 4,1M -i 2 || bad=1
fi

if [[ $(left) -gt 40 ]] && PYTHONPATH=build/release/python:build/dev/python:${PYTHONPATH:-} \
    python3 -c 'import torch, fabring.torch; assert torch.cuda.is_available()' 2>/dev/null; then
  part "DDP on CUDA tensors"
  PYTHONPATH=build/release/python:build/dev/python:${PYTHONPATH:-} timeout "$(left)" \
    python3 -m torch.distributed.run --standalone --nproc-per-node 2 tests/gpu/ddp.py || bad=1
else
  echo "no torch with CUDA and fabring.torch: DDP not run"
fi

echo
echo "$([[ $bad == 0 ]] && echo all right || echo SOMETHING WAS WRONG) after $((SECONDS - begun)) s"
exit $bad
