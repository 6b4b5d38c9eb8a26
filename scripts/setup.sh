#!/bin/sh
# Installs what building and testing need on Debian 12 or Ubuntu 24.04: system packages, and a
# Python environment (.venv) for the tests. Does nothing when all is there.
#
#   scripts/setup.sh [build|test|browser|lint|fuzz|image]...     default: build test
#
# `image` is what libtilewright-image.so needs, for models that decode pictures; `test` has it, too.
set -eu
cd "$(dirname "$0")/.."

build="build-essential cmake ninja-build pkg-config llvm-19-dev liblld-19-dev zlib1g-dev libzstd-dev
libprotobuf-c-dev protobuf-c-compiler libxxhash-dev libcjson-dev libzip-dev libsqlite3-dev
libpng-dev"
test="libcmocka-dev llvm-19-tools python3 python3-venv ca-certificates"
browser="chromium-headless-shell fonts-dejavu-core" # of Debian; looks at the pages of inspect --html
lint="clang-format-19 clang-tidy-19"
fuzz="clang-19 libclang-rt-19-dev"
image="libjpeg-dev libtiff-dev libwebp-dev libopenjp2-7-dev" # and libpng-dev, above

[ $# -gt 0 ] || set -- build test
packages=
python=
for part in "$@"; do
    case $part in
    build) packages="$packages $build" ;;
    test) packages="$packages $test $image" python=1 ;;
    image) packages="$packages $image" ;;
    browser) packages="$packages $browser" ;;
    lint) packages="$packages $lint" ;;
    fuzz) packages="$packages $fuzz" ;;
    *) echo "setup.sh: unknown part '$part'; one of build, test, browser, lint, fuzz, image" >&2; exit 2 ;;
    esac
done

missing=
for package in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "setup.sh: needs Debian 12 or Ubuntu 24.04; elsewhere install what these hold:" >&2
        echo "   $missing" >&2
        exit 1
    fi
    sudo=
    if [ "$(id -u)" != 0 ]; then
        if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
            sudo=sudo
            echo "setup.sh: installs with sudo:$missing"
        else
            echo "setup.sh: these packages are missing and only root can install them:" >&2
            echo "    apt-get install$missing" >&2
            exit 1
        fi
    fi
    run="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Acquire::Retries=3"
    $run update
    # shellcheck disable=SC2086  # a list
    $run install --no-install-recommends $missing
fi

if [ -n "$python" ]; then
    requirements=tests/requirements.txt
    stamp=.venv/requirements.txt
    if ! cmp -s "$requirements" "$stamp"; then
        [ -x .venv/bin/python ] || python3 -m venv .venv
        .venv/bin/python -m pip install -q --disable-pip-version-check -r "$requirements"
        cp "$requirements" "$stamp"
    fi
fi
