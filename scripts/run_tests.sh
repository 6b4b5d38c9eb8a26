#!/bin/bash
# Builds and runs the tests: all of them on the release preset, the quick ones under the address and
# undefined-behaviour sanitizers, the runtime's under the thread sanitizer, and the fuzz targets for
# a bounded time. Closes with one line that counts the cases of all runners.
#
# With arguments for ctest, for instance `-L fast`, the release preset alone.
set -uo pipefail
cd "$(dirname "$0")/.."
export CMAKE_BUILD_PARALLEL_LEVEL CTEST_PARALLEL_LEVEL
CMAKE_BUILD_PARALLEL_LEVEL=$(nproc)
CTEST_PARALLEL_LEVEL=$(nproc)
status=0
reports=()

# run PRESET CTEST-ARGUMENTS...: configures, builds and tests a preset.
run() {
    local preset=$1 tree=build/$1 start=$SECONDS
    shift
    mkdir -p "$tree"
    # A user's newer compiler may warn of more than ours, and clang (fuzz) warns of other things.
    local werror=${CI:+ON}
    [ "$preset" != fuzz ] || werror=OFF
    if ! cmake --preset "$preset" -D TW_WERROR="$werror" >"$tree/configure.log" 2>&1; then
        cat "$tree/configure.log"
        exit 1
    fi
    cmake --build --preset "$preset" -- --quiet || exit 1
    echo "== $preset: built in $((SECONDS - start)) s"
    rm -f "$tree/tests.xml"
    ctest --test-dir "$tree" --output-on-failure --no-tests=error --test-output-truncation head \
        --output-junit "$PWD/$tree/tests.xml" "$@" || status=1
    reports+=("$tree/tests.xml")
}

if [ $# -gt 0 ]; then
    run release "$@"
else
    run release
    # The sanitizer's dlopen does not see the RUNPATH by which the runtime finds its plugins.
    LD_LIBRARY_PATH=$PWD/build/asan/bin run asan -L 'fast|small'
    run tsan -L threads
    run fuzz -L fuzz
fi
python3 scripts/count_tests.py "${reports[@]}" || status=1
exit $status
