#!/bin/bash
# Formatting and static checks of all C and C++ sources, and the syntax of the scripts.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(git ls-files '*.c' '*.h' '*.cpp')
clang-format-19 --dry-run --Werror "${sources[@]}"
bash -n scripts/*.sh .ci/run
.venv/bin/python -m compileall -q bench scripts tests
# The debug tree, as assertions tell the analyzer what holds.
cmake --preset debug >/dev/null
cmake --build --preset debug --target generated -- --quiet
# Of the examples, only those that this build tree compiles.
git ls-files 'src/*.c' 'tools/*.c' 'tests/*.c' 'examples/*.c' |
    grep -v -e '^tests/package/' -e '^examples/embed/' |
    xargs -P "$(nproc)" -n 4 clang-tidy-19 -p build/debug --quiet
