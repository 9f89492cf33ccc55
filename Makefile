# The front door.  Everything here calls a script or meson; nothing is built by make.
.POSIX:
.PHONY: help demo build install test test-gpu arm64 windows bare bench bench-gpu wheel docs sanitize coverage fuzz lint format setup release clean

help:
	@echo 'make demo      renders demo.png; SCENE=file.ply [CAMERAS=cameras.json] for a trained scene'
	@echo 'make build     the library and the command, with CUDA, into build/'
	@echo 'make install   the same, installed into PREFIX=/usr/local'
	@echo 'make test      builds and runs all tests; from nothing about 10 minutes on two cores'
	@echo 'make test-gpu  runs the GPU tests on the library that make test built'
	@echo 'make arm64     the library and the command for Linux arm64, and their tests under qemu'
	@echo 'make windows   the DLL and the command for Windows, and their tests under Wine'
	@echo 'make bare      make demo and make test in a minimal Debian with make alone; needs root'
	@echo 'make bench     times rendering; ARGS="..." are passed to gsplat-c bench'
	@echo 'make bench-gpu times everything on a GPU stage by stage; ARGS="..." for bench/gpu.py'
	@echo 'make wheel     the Python wheels and the source distribution, into dist/;'
	@echo '               PLATFORMS="arm64 windows" for those of other platforms too'
	@echo 'make release   all files of a release, into dist/; ARGS=--dry-run without its tag'
	@echo 'make docs      the API reference as HTML, into build-docs/'
	@echo 'make sanitize  the C tests under address and undefined-behaviour sanitizers'
	@echo 'make coverage  the C tests once more, and which lines of src/ they run'
	@echo 'make fuzz      the fuzz targets, a minute each; ARGS="SECONDS [TARGET..]"'
	@echo 'make lint      gcc and clang with warnings as errors, clang-format, clang-tidy, ruff, mypy,'
	@echo '               shellcheck, doxygen, clippy'
	@echo 'make format    formats the C, Python and Rust sources in place'
	@echo 'make setup     installs what the tests need'
	@echo 'make clean     removes the build folders and dist; .venv stays'

demo:
	@sh scripts/setup.sh demo
	@SCENE='$(SCENE)' CAMERAS='$(CAMERAS)' CAMERA='$(CAMERA)' SIZE='$(SIZE)' OUT='$(OUT)' \
		sh scripts/demo.sh

build:
	@sh scripts/setup.sh install
	@sh scripts/build.sh build -Dtools=enabled -Dgpu=auto $$GSPLAT_C_MESON_OPTIONS

PREFIX = /usr/local
install:
	@sh scripts/setup.sh install
	@sh scripts/build.sh build -Dtools=enabled -Dgpu=auto $$GSPLAT_C_MESON_OPTIONS \
		'-Dprefix=$(PREFIX)' install

test:
	@sh scripts/setup.sh test
	@sh scripts/test.sh

arm64:
	@sh scripts/setup.sh arm64
	@sh scripts/cross.sh arm64

test-gpu:
	@sh scripts/test_gpu.sh

windows:
	@sh scripts/setup.sh windows
	@sh scripts/cross.sh windows

bare:
	@sh scripts/bare.sh

bench:
	@sh scripts/setup.sh demo
	@sh scripts/bench.sh $(ARGS)

bench-gpu:
	@sh scripts/bench_gpu.sh $(ARGS)

wheel:
	@sh scripts/setup.sh wheel
	@for platform in $(PLATFORMS); do sh scripts/setup.sh $$platform || exit 1; done
	@sh scripts/wheel.sh source native $(PLATFORMS)

release:
	@for purpose in wheel arm64 windows; do sh scripts/setup.sh $$purpose || exit 1; done
	@sh scripts/release.sh $(ARGS)

docs:
	@sh scripts/setup.sh docs
	@sh scripts/docs.sh

sanitize:
	@sh scripts/setup.sh test
	@sh scripts/sanitize.sh

coverage:
	@sh scripts/setup.sh coverage
	@sh scripts/coverage.sh

fuzz:
	@sh scripts/setup.sh fuzz
	@sh scripts/fuzz.sh $(ARGS)

lint:
	@sh scripts/setup.sh lint
	@sh scripts/lint.sh

format:
	@sh scripts/format.sh

setup:
	@sh scripts/setup.sh test

clean:
	rm -rf build build-arm64 build-arm64-root build-windows build-windows-root \
		build-native build-sanitize build-coverage build-lint \
		build-docs dist demo.png bindings/rust/target
