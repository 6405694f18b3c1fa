#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests.
#   tools/test.sh [PRESET] [CTEST OPTION ...]    presets: dev (default), asan, tsan, minimal
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
preset=${1:-dev}
shift || true
cmake --preset "$preset" >/dev/null
cmake --build "build/$preset"
export LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0"
export TSAN_OPTIONS="suppressions=$PWD/tests/support/tsan.supp:halt_on_error=1"
ctest --test-dir "build/$preset" --output-on-failure -j 2 "$@"
