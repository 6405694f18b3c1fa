#!/usr/bin/env bash
# The whole matrix on the simulated fabric: every collective by every algorithm, with every type, operation, kind of blocks, in place and
# not, in worlds of 1 to 9, 16, 17 and 31 to 33 ranks, with 0, 1, p - 1, p, p + 1 and 97 elements. Prints how many cells there are. The
# suite has a walk through it (matrix_test.cpp). A word is a part of the names of tests: tools/matrix.sh allreduce_by_ring
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[[ ${1:-} != -* ]] || { echo "matrix.sh: it takes a part of the names of tests and no options, but got: $1" >&2; exit 2; }
(($# < 2)) || { echo "matrix.sh: one word, a part of the names of tests, but got: $*" >&2; exit 2; }
cd "$(dirname "$0")/.."
test=${FABRING_ENGINE_TEST:-build/dev/tests/runtime/engine/engine_test}
[[ -x $test ]] || { echo "matrix.sh: no $test: build it first (tools/test.sh, or cmake --build build/dev --target engine_test)" >&2; exit 3; }
export FABRING_TEST_MATRIX=whole
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$test" --gtest_list_tests --gtest_filter="*Matrix*${1:-}*" | awk '/^[^ ]/ {suite = $1} /^  / {print suite $1}' > "$folder/tests"
[[ -s $folder/tests ]] || { echo "matrix.sh: no test of the matrix has '${1:-}' in its name: $test --gtest_list_tests --gtest_filter='*Matrix*' prints them" >&2; exit 3; }
code=0
xargs -P "$(nproc)" -I{} sh -c '"$0" --gtest_filter={} --gtest_brief=1 > "$1/$$" 2>&1 && sed -n "s|^\([0-9]* cells\)|{}: \1|p" "$1/$$" ||
    { cat "$1/$$"; exit 1; }' "$test" "$folder" < "$folder/tests" | tee "$folder/told" || code=1
awk -v s="$SECONDS" '/ cells$/ {n += $(NF - 1); ++c} END {printf "%d cells of %d collectives by their algorithms, %d s\n", n, c, s; exit !c}' \
  "$folder/told" || code=$((code ? code : 3))
exit $code
