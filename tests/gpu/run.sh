#!/usr/bin/env bash
# Everything that needs a real GPU, in at most 8 minutes, on a machine that has the NVIDIA driver and perhaps nothing else.
#   tests/gpu/run.sh [FABRING]      the built command; without it one is looked for in build/, then built
# Figures go to stdout, a line each, to be copied to docs/performance/gpu.md. Exit code: 0 all right, 1 something was wrong, 3 could
# not run here.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 3
begun=$SECONDS
limit=${GPU_TEST_SECONDS:-470}
left() { echo $((limit - (SECONDS - begun))); }
bad=0
part() { echo; echo "== $1 ($(left) s left)"; }
# within SECONDS COMMAND...: stopped after so long, or when all the time is over; what fails or is not run counts as wrong.
within() {
  local most=$1 rest
  shift
  rest=$(left)
  if ((rest < 5)); then
    echo "no time left, not run: $*"
    bad=1
    return 1
  fi
  timeout $((most < rest ? most : rest)) "$@" && return
  local code=$?
  ((code == 124)) && echo "not done in $most s, or in the time left: $*"
  bad=1
  return $code
}

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
    timeout "$(left)" cmake --build build/release -j --target fabring-cli fabring_gpu_check >/dev/null ||
    { echo "the build failed" >&2; exit 3; }
  # The backend for PyTorch, where Python's headers, nanobind and torch are.
  timeout "$(left)" cmake --build build/release -j --target python_package >/dev/null 2>&1
  fabring=build/release/tools/fabring
fi
check=
for candidate in "$(dirname "$fabring")/fabring_gpu_check" "$(dirname "$fabring")/../tests/gpu/fabring_gpu_check"; do
  [[ -z $check && -x $candidate ]] && check=$candidate
done
if [[ -d $(dirname "$fabring")/lib ]]; then
  carried=$(realpath "$(dirname "$fabring")/lib")
  export LD_LIBRARY_PATH=$carried:${LD_LIBRARY_PATH:-}
  "$fabring" --help >/dev/null 2>&1 || export LD_LIBRARY_PATH=$carried/compiler:$LD_LIBRARY_PATH
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

part "what topo and doctor say of it"
within 20 "$fabring" topo
timeout 30 "$fabring" doctor host || echo "(exit code $?: what it found is above)"

if [[ -z $check ]]; then
  echo "no fabring_gpu_check beside $fabring: kernels are not tried (build the target fabring_gpu_check, or carry it)"
  bad=1
else
  part "kernels against the processor's, every type and operation, bit for bit"
  within 90 "$check" kernels
  kernels=$?
  if ((kernels == 3)); then
    echo "there are no kernels here, so they are not tried"
  elif ((kernels == 0)); then
    part "figures: kernels beside copies on the device"
    within 40 "$check" figures
    part "processes that reduce each other's memory (CUDA IPC), several on one GPU"
    for processes in 2 4 8; do within 40 "$check" share $processes --figures; done
    within 30 "$check" share 2 --pieces
  fi
fi

part "every collective over every transport, several ranks on one GPU"
transports=shm,tcp
"$fabring" perf barrier -n 2 --transport fabric -i 1 -w 0 >/dev/null 2>&1 && transports=shm,tcp,fabric
within 160 python3 -B tests/gpu/matrix.py --fabring "$fabring" --transports "$transports" --ranks 2,4,8 \
  --sizes 4,20K,3M --seconds 150

part "gradients of training steps: none passes through the host"
for model in resnet50 vgg16; do
  within 60 python3 -B tests/gpu/training_step.py --fabring "$fabring" --model $model --ranks 2,4 --steps 5
done

part "ranks that read each other's memory, beside others that do not; killed and stopped in the middle"
within 60 python3 -B tests/gpu/loans_test.py --program "$fabring"

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
# What the driver refuses is no error: it is asked for much that it may refuse.
sanitize() {  # TOOL COMMAND...
  local tool=$1
  shift
  within 60 "$sanitizer" --target-processes all --tool "$tool" --report-api-errors no --error-exitcode 9 "$@"
}
if [[ -z $sanitizer ]]; then
  echo "no compute-sanitizer here: memcheck and racecheck not run"
else
  if [[ -n $check && ${kernels:-1} == 0 ]]; then
    for tool in memcheck racecheck; do
      part "compute-sanitizer $tool over the kernels"
      sanitize $tool "$check" kernels --quick
    done
  fi
  for path in auto staged; do
    for collective in allreduce reduce_scatter all_gather alltoall broadcast; do
      if (($(left) < 150)); then
        echo "not run, so that there is time for the rest: memcheck over $collective ($path)"
        continue
      fi
      part "compute-sanitizer memcheck over $collective of 2 ranks, FABRING_GPU_PATH=$path"
      FABRING_GPU_PATH=$path sanitize memcheck "$fabring" perf $collective -n 2 --transport shm --memory cuda --sizes 4,20K,1M -w 0 -i 1
    done
  done
fi

part "PyTorch: DDP, FSDP2 and fabring.horovod on CUDA tensors"
for package in "$(dirname "$fabring")/../python" "$(dirname "$fabring")/python"; do
  [[ -d $package/fabring/torch ]] && export PYTHONPATH=$(realpath "$package")${PYTHONPATH:+:$PYTHONPATH}
done
python=
for candidate in build/venv/bin/python python3; do
  command -v $candidate >/dev/null || continue
  if why=$($candidate -c 'import torch; assert torch.cuda.is_available(), "this torch sees no GPU"; import fabring.torch' 2>&1); then
    python=$candidate
    break
  fi
  echo "not with $candidate: ${why##*$'\n'}"
done
if [[ -n $python ]]; then
  torchrun() { within 90 $python -m torch.distributed.run --standalone "$@"; }
  torchrun --nproc-per-node 2 tests/gpu/ddp.py
  torchrun --nproc-per-node 4 tests/gpu/fsdp.py
  torchrun --nproc-per-node 4 tests/gpu/bound_device.py
  for ranks in 2 4; do within 60 "$fabring" run -n $ranks -- $python -B tests/gpu/horovod.py; done
  within 60 "$fabring" run -n 4 --split-nodes 2 -- $python -B tests/python/jobs/horovod_collectives.py cuda | grep -c ' ok' || bad=1
  within 60 "$fabring" run -n 3 -- $python -B tests/python/jobs/horovod_training.py cuda | grep -c ' ok' || bad=1
  echo "-- two of four ranks are killed, the others shrink and go on"
  left=$(timeout 60 "$fabring" run -n 4 --grace 50s -- $python -B tests/gpu/left.py 2>&1)
  (($(grep -c 'right sums' <<<"$left") == 2)) || { echo "$left"; echo "those who were left did not go on"; bad=1; }
  grep 'right sums' <<<"$left"
  echo "-- in expandable segments"
  export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=1
  torchrun --nproc-per-node 2 tests/gpu/ddp.py
  torchrun --nproc-per-node 2 tests/gpu/fsdp.py
  within 60 "$fabring" run -n 2 -- $python -B tests/gpu/horovod.py
  unset PYTORCH_CUDA_ALLOC_CONF TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC
else
  echo "no Python with a torch for CUDA and fabring.torch built for it: DDP, FSDP2 and fabring.horovod not run"
fi

# Processes that share a GPU take turns on it, half a millisecond for the smallest operation. With the driver's MPS their work
# runs side by side, as it does where each has a GPU; the daemon is this script's own, and ends with it.
mps=$(command -v nvidia-cuda-mps-control || ls /usr/local/nvidia/bin/nvidia-cuda-mps-control 2>/dev/null)
begin_mps() {
  export CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d) && export CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
  trap end_mps EXIT
  "$mps" -d
}
end_mps() {
  echo quit | timeout 20 "$mps" >/dev/null
  rm -rf "$CUDA_MPS_PIPE_DIRECTORY"
}

part "figures: allreduce of GPU memory: CUDA IPC, staged, and the same of host memory"
transport=shm
if [[ -z $mps ]]; then
  echo "no nvidia-cuda-mps-control here: the ranks take turns on the GPU, and the times are those of the turns"
elif [[ -n ${CUDA_MPS_PIPE_DIRECTORY:-} ]]; then
  echo "under the MPS that is here"
else
  echo "-- taking turns"
  timeout 30 "$fabring" perf allreduce -n 2 --transport shm --memory cuda --sizes 8,64K,16M --in-place --format plain -w 3 -i 10 --no-check
  echo "-- from here on under MPS"
  begin_mps || bad=1
fi
figures() {  # RANKS MEMORY SIZES [SETTING=VALUE...]
  local ranks=$1 memory=$2 sizes=$3
  shift 3
  echo "-- $ranks ranks, $transport, $memory $*"
  within 60 env "$@" "$fabring" perf allreduce -n "$ranks" --transport $transport --memory "$memory" --sizes "$sizes" ${in_place---in-place} \
    --format plain -w 5 -i ${calls:-10} --no-check
}
for ranks in 2 4 8; do
  echo "-- what is chosen; then not in place; then with the limit of what is sent unasked, and the prices, of the host's memory"
  calls=100 figures $ranks cuda 8,4K,8K,16K,32K,64K,256K,1M,4M,16M FABRING_GPU_PATH=auto
  calls=100 in_place= figures $ranks cuda 8,4K,8K,16K,32K,64K,256K,1M FABRING_GPU_PATH=auto
  calls=100 figures $ranks cuda 8,4K,8K,16K,32K,64K,256K,1M FABRING_GPU_PATH=staged
  figures $ranks cuda 8K,16K,32K,64K,256K,1M FABRING_SEGMENT_BYTES=8M FABRING_MACHINE=shared-memory
  echo "-- one round and two, to see where one stops to pay"
  figures $ranks cuda 64K,256K,512K,1M,2M FABRING_ALGORITHM=direct_one_shot
  figures $ranks cuda 64K,256K,512K,1M,2M FABRING_ALGORITHM=direct_two_shot
  figures $ranks cuda 16M,64M,256M,1G
  figures $ranks cuda 16M,64M,256M FABRING_SEGMENT_BYTES=8M FABRING_SCRATCH_BYTES=256M FABRING_STAGING_BYTES=1G
done
if [[ -n $python ]]; then
  echo "-- beside Gloo, in PyTorch"
  for ranks in 2 4; do torchrun --nproc-per-node $ranks benchmarks/pytorch/allreduce.py --device cuda --rounds 3; done
fi
figures 4 cuda 64K,1M,16M,128M FABRING_GPU_PATH=staged
figures 4 host 64K,1M,16M,128M
echo "-- staged where the network binds: at least 90% of the same of host memory"
transport=tcp figures 2 cuda 64K,1M,16M,128M
transport=tcp figures 2 host 64K,1M,16M,128M

echo
echo "$([[ $bad == 0 ]] && echo all right || echo SOMETHING WAS WRONG) after $((SECONDS - begun)) s"
exit $bad
