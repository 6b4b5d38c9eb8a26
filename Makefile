# Each target does all that it needs on a bare Debian 12 or Ubuntu 24.04, packages included.
.PHONY: all build test demo lint format install clean

all: build

build:
	scripts/setup.sh build
	cmake --preset release
	cmake --build --preset release

# All tests, sanitizers and bounded fuzzing among them; the counts of all runners come last.
test:
	scripts/setup.sh build test fuzz
	scripts/run_tests.sh

demo:
	scripts/setup.sh build test
	scripts/demo.sh

lint:
	scripts/setup.sh build test lint
	scripts/lint.sh

format:
	scripts/setup.sh lint
	git ls-files '*.c' '*.h' '*.cpp' | xargs clang-format-19 -i

# PREFIX=/usr/local
install: build
	cmake --install build/release $(if $(PREFIX),--prefix $(PREFIX))

clean:
	rm -rf build
