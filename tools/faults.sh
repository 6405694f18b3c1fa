#!/usr/bin/env bash
# Random faults on real processes (workload x fault x moment x transport by a seed): no hang, no wrong result, no unnamed culprit.
#   tools/faults.sh --runs 1000              a new seed, which it prints; two runs side by side, about a second each
#   tools/faults.sh --runs 1000 --seed 7     the same runs again
#   tools/faults.sh --seed 7 --only 17       run 17 of that seed alone; --only 1000+: from there on
#   tools/faults.sh --transport tcp          those of shm,tcp,fabric that are named
# or in worlds on the simulated fabric, by the tests that draw kills, cut links, GPUs that fail, ranks that disagree, refuse, pause, abort:
#   tools/faults.sh --simulated 400          400 by each of these tests, from a new seed on, which it prints
#   tools/faults.sh --simulated 400 --seed 7 the same from seed 7 on, which has them again
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."

# Every test of these in a process of its own, as many side by side as there are processors.
simulated() {
  local engine=${FABRING_ENGINE_TEST:-build/dev/tests/runtime/engine/engine_test}
  local transfer=${FABRING_TRANSFER_TEST:-build/dev/tests/runtime/transfer/transfer_test}
  local program tests drawn code=0
  for program in "$engine" "$transfer"; do
    [[ -x $program ]] || { echo "faults.sh: no $program: build it first (tools/test.sh, or cmake --build build/dev --target ${program##*/})" >&2; exit 3; }
  done
  unset FABRING_TEST_SEED
  export FABRING_TEST_SEEDS=$1 FABRING_TEST_FIRST_SEED=$2
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  for drawn in 'Killed.*' 'Cut.*' 'Mismatch.*' '*/Mismatch.*' 'Paused.*' 'Abort.*' 'Aborted.*' 'Refused.*' 'Hostile.*' \
      'Messages.under_way_end_*' 'Direct.a_rank_that_dies_*' 'OnDevice.ranks_that_die_*' 'OnDevice.a_gpu_that_fails_*' \
      'DeviceSharing.*_was_aborted_*' 'DeviceSharing.*_is_freed_while_*' 'DeviceSharing.a_gpu_that_fails_*'; do
    program=$engine
    [[ $drawn != Hostile* ]] || program=$transfer
    tests=$("$program" --gtest_list_tests --gtest_filter="$drawn" | awk -v p="$program" '/^[^ ]/ {s = $1} /^  / {print p, s $1}')
    [[ $tests ]] || { echo "faults.sh: $program has no test $drawn, whose faults should be drawn" >&2; exit 3; }
    printf '%s\n' "$tests" >> "$folder/tests"
  done
  xargs -P "$(nproc)" -L 1 sh -c '"$1" --gtest_filter="$2" --gtest_brief=1 > "$0/$$" 2>&1 && sed -n "s|^\([0-9]* seeds\) .*|ok      $2: \1|p" "$0/$$" ||
      { again="FABRING_TEST_FIRST_SEED=$FABRING_TEST_FIRST_SEED FABRING_TEST_SEEDS=$FABRING_TEST_SEEDS $1 --gtest_filter=$2"
        printf "FAILED  %s\n%s\n  again: %s\n" "$2" "$(cat "$0/$$")" "$again"; exit 1; }' \
    "$folder" < "$folder/tests" | tee "$folder/told" || code=1
  awk -v s="$SECONDS" -v n="$1" -v from="$2" '/^ok .* seeds$/ {all += $(NF - 1)} /^FAILED / {++bad}
      END {printf "%d simulated faults of seeds %.0f to %.0f, %d tests failed, %d s\n", all, from, from + n - 1, bad, s; exit !all}' "$folder/told" || code=1
  exit $code
}

if [[ ${1:-} == --simulated ]]; then
  [[ ${2:-} =~ ^[1-9][0-9]{0,7}$ ]] || { echo "faults.sh: --simulated N: by how many seeds each test draws, but got: ${2:-nothing}" >&2; exit 2; }
  if (($# == 2)); then
    simulated "$2" "$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')"
  elif [[ $# == 4 && $3 == --seed && $4 =~ ^[0-9]{1,12}$ ]]; then
    simulated "$2" "$4"
  else
    echo "faults.sh: --simulated $2 takes --seed S and nothing else, but got: ${*:3}" >&2
    exit 2
  fi
fi
program=${FABRING_RANK_PROGRAM:-build/dev/tests/process/rank_program}
[[ -x $program ]] || { echo "faults.sh: no $program: build it first (tools/test.sh, or cmake --build build/dev --target rank_program)" >&2; exit 3; }
exec python3 -B tests/process/faults_test.py --program "$program" "$@"
