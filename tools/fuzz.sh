#!/usr/bin/env bash
# Fuzzes everything that reads bytes from others: libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer.
#   tools/fuzz.sh [--runs N] [--target NAME]... [--seconds S]    N inputs for each target (100,000), S seconds at most
# What it finds stays in build/fuzz/findings: run NAME_fuzz FILE to see it again. The corpus is outside the tree and is
# gone on with the next time: FUZZ_CORPUS, or ~/.cache/fabring-fuzz. Needs clang 14; CC and CXX name another.
# Exit code: 1 if anything was found.
set -euo pipefail
runs=100000
seconds=0
wanted=()
while (($# > 0)); do  # before anything is installed
  case $1 in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --runs | --target | --seconds) ;;
    *) echo "fuzz.sh: '$1' is none of --runs, --target and --seconds; --help says what they do" >&2; exit 2 ;;
  esac
  (($# > 1)) || { echo "fuzz.sh: $1 needs a value; --help says which" >&2; exit 2; }
  case $1 in
    --runs) runs=$2 ;;
    --target) wanted+=("$2") ;;
    --seconds) seconds=$2 ;;
  esac
  shift 2
done
cd "$(dirname "$0")/.."
if [[ -z ${CXX:-} ]] && ! command -v clang++-14 >/dev/null; then tools/setup.sh fuzz; fi
export CC=${CC:-clang-14} CXX=${CXX:-clang++-14}
cmake --preset fuzz -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" >/dev/null
((${#wanted[@]} > 0)) || mapfile -t wanted < <(sed -n 's/^fabring_fuzz(\([a-z_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
cmake --build build/fuzz --target "${wanted[@]/%/_fuzz}"

corpus=${FUZZ_CORPUS:-$HOME/.cache/fabring-fuzz}
findings=build/fuzz/findings
mkdir -p "$findings"
found=0
printf '%-16s %12s %10s %8s %8s  %s\n' target inputs per_second edges corpus result
for target in "${wanted[@]}"; do
  program=build/fuzz/tests/fuzz/${target}_fuzz
  mkdir -p "$corpus/$target" "$findings/$target"
  "$program" --seeds="$corpus/$target"
  log=$findings/$target/log
  result=fine
  # More than 10 s for an input, 64 MiB at once or 1 GiB in all count as found.
  "$program" -runs="$runs" -max_total_time="$seconds" -timeout=10 -malloc_limit_mb=64 -rss_limit_mb=1024 \
    -print_final_stats=1 -artifact_prefix="$findings/$target/" "$corpus/$target" >"$log" 2>&1 || { result="FOUND: $log"; found=1; }
  number() { sed -n "s/^stat::$1: *//p" "$log" | tail -1; }
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
  printf '%-16s %12s %10s %8s %8s  %s\n' "$target" "$(number number_of_executed_units)" "$(number average_exec_per_sec)" \
    "${edges:-?}" "$(find "$corpus/$target" -type f | wc -l)" "$result"
done
exit $found
