#!/bin/bash
# Builds the release preset and runs all tests, the sanitizers' presets after it; prints the counts
# of all runners in one closing line. Arguments go to the first ctest, for instance `-L fast`.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
status=0
reports=()

# run PRESET CTEST-ARGUMENTS...: configures, builds and tests a preset.
run() {
    local preset=$1 report=$PWD/build/$1/tests.xml
    shift
    echo "== $preset"
    { cmake --preset "$preset" >"build/$preset.log" 2>&1 || { cat "build/$preset.log"; false; }; } &&
        cmake --build --preset "$preset" -j "$jobs" -- --quiet || exit 1
    rm -f "$report"
    ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error \
        --test-output-truncation head --output-junit "$report" "$@" || status=1
    reports+=("$report")
}

mkdir -p build
run release "$@"
python3 scripts/count_tests.py "${reports[@]}" || status=1
exit $status
