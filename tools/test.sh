#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests.
#   tools/test.sh [PRESET] [CTEST OPTION ...]    presets: dev (default), asan, tsan, minimal, tidy
#   tools/test.sh torch [CTEST OPTION ...]       the PyTorch backend, built as dev in build/dev
#   tools/test.sh ci                             dev, and the short form of PyTorch's where pip can fetch it; a test that was
#                                                skipped and has to be here (tests/tools/skips.py) has failed, and so have
#                                                Python's where there are none, unless SETUP_PYTHON=none
#   tools/test.sh sanitizers [CTEST OPTION ...]  asan, then tsan whatever became of it (docs/testing.md)
set -euo pipefail
preset=${1:-dev}
case $preset in  # before anything is installed
  dev | asan | tsan | minimal | tidy | torch | ci | sanitizers) ;;
  -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *)
    echo "test.sh: '$preset' is none of these presets:" >&2
    sed -n '3,8s/^# \{0,1\}//p' "$0" >&2
    exit 2 ;;
esac
cd "$(dirname "$0")/.."
shift || true
if [[ $preset == sanitizers ]]; then
  failed=()
  for each in asan tsan; do tools/test.sh $each "$@" || failed+=($each); done
  ((${#failed[@]} == 0)) || { echo "test.sh: ${failed[*]}: failed" >&2; exit 1; }
  exit 0
fi
tools/setup.sh "$preset"
if [[ $preset == torch ]]; then
  preset=dev
  set -- -L torch "$@"
elif [[ $preset == ci ]]; then
  preset=dev
  set -- -LE long "$@"
  said=$(mktemp)
  trap 'rm -f "$said"' EXIT
fi
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # the test of the wheel builds the same files elsewhere
cmake --preset "$preset" | { grep -E 'not (built|tested)' || true; }
cmake --build "build/$preset"
if [[ $preset == tidy ]]; then exit 0; fi  # what it finds are errors of the build
if [[ -n ${said:-} && ${SETUP_PYTHON:-} != none ]]; then  # tests that were not even added are none that ctest calls skipped
  for label in python torch; do
    if [[ $label == torch ]] && ! build/venv/bin/python -c 'from importlib.metadata import version; version("torch")' 2>/dev/null; then
      continue
    fi
    if ! [[ $(ctest --preset "$preset" -N -L "^$label\$") =~ Total\ Tests:\ [1-9] ]]; then
      echo "test.sh: no test has the label $label: what that needs is not built or not tested, as said above; SETUP_PYTHON=none does without" >&2
      exit 1
    fi
  done
fi
ctest --preset "$preset" -j 2 "$@" | tee "${said:-/dev/null}"  # the preset has the sanitizers' options
if [[ -n ${said:-} ]]; then python3 tests/tools/skips.py "$said"; fi
