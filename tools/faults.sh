#!/usr/bin/env bash
# Random faults on real processes (workload x fault x moment x transport by a seed): no hang, no wrong result, no unnamed culprit.
#   tools/faults.sh --runs 1000              a new seed, which it prints; two runs side by side, about a second each
#   tools/faults.sh --runs 1000 --seed 7     the same runs again
#   tools/faults.sh --seed 7 --only 17       run 17 of that seed alone; --only 1000+: from there on
#   tools/faults.sh --transport tcp          those of shm,tcp,fabric that are named
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
program=${FABRING_RANK_PROGRAM:-build/dev/tests/process/rank_program}
[[ -x $program ]] || { echo "faults.sh: no $program: build it first (tools/test.sh, or cmake --build build/dev --target rank_program)" >&2; exit 3; }
exec python3 -B tests/process/faults_test.py --program "$program" "$@"
