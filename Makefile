# A thin front for CMake: every target installs what it needs (Debian), configures a preset and builds it.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
CMAKE_QUIET = cmake --log-level=NOTICE
TERN = build/release/tern
# What the environment or the command line says of the module for NVIDIA GPUs, also in a folder that was configured
# before; packages have code for all GPUs, where nothing is said.
CUDA_ASKED = $(foreach name,TERN_CUDA_ARCHS TERN_CUDA_QUICK,$(if $($(name)),-D$(name)="$($(name))"))
CUDA_ALL = $(CUDA_ASKED) $(if $(TERN_CUDA_ARCHS),,-DTERN_CUDA_ARCHS=ALL)
# static_root PRESET: the command and its models as the Containerfile and a tar file have them.
static_root = rm -rf build/$(1)/root && cmake --install build/$(1) --component alone --prefix build/$(1)/root >/dev/null && \
    tar -C build/$(1)/root -czf build/$(1)/tern-$(1).tar.gz . && ls build/$(1)/root/bin/tern build/$(1)/tern-$(1).tar.gz

.DEFAULT_GOAL := help
.PHONY: help command build shaders run chat cuda test test-all bench deb static static-arm64 python-wheel install uninstall web web-modules web-site web-serve web-test asan tsan fuzz arm64 clang lint clean deps deps-test deps-web deps-ci

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps:
	@scripts/install-deps.sh
deps-test:
	@scripts/install-deps.sh --test
deps-web:
	@scripts/install-deps.sh --web
deps-ci:
	@scripts/install-deps.sh --ci

command: deps
	@$(CMAKE_QUIET) --preset release $(CUDA_ASKED)
	@cmake --build --preset release --target tern

build: command ## Build build/release/tern, and tern-cuda.so where an NVIDIA GPU and nvcc are
	@scripts/cuda-here.sh build/release

run: command ## Build, then let the bundled model write a story; tern-cuda.so, as above, after it
	@$(TERN) run -p "Once upon a time" $(ARGS)
	@scripts/cuda-here.sh build/release

chat: command ## Build, then talk to the bundled model
	@$(TERN) chat $(ARGS)

cuda: deps ## Build tern and, with nvcc, tern-cuda.so for NVIDIA GPUs (TERN_CUDA_ARCHS; else the GPU here, or all)
	@$(CMAKE_QUIET) --preset release -DTERN_CUDA=ON $(CUDA_ASKED)
	@cmake --build --preset release --target tern tern_cuda

test-build: deps-test
	@$(CMAKE_QUIET) --preset release $(CUDA_ASKED)
	@cmake --build --preset release

test: test-build ## Build everything and run the tests that take minutes in all (ARGS: for ctest)
	@ctest --preset release -j $(JOBS) $(ARGS)

test-all: test deps-ci ## Run all tests of this build, the slow ones and those of browsers: hours (scripts/slow-tests.sh)
	@JOBS=$(JOBS) scripts/slow-tests.sh all

shaders: ## Compile the WGSL kernels (needs Node and npm; the result is committed)
	@cd tools/wgsl && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --ignore-scripts --silent; }
	@cd tools/wgsl && npm run --silent build -- --tint $(ARGS)

web-modules: deps-web
	@quiet=--quiet; [ ! -t 1 ] || quiet=; for preset in web web-threads; do echo "WebAssembly module: build/$$preset"; \
	    $(CMAKE_QUIET) --preset $$preset >/dev/null && \
	    cmake --build --preset $$preset --target tern_web -- $$quiet || exit 1; done
	@node tools/wgsl/text.mjs web/lib/kernels.js

web-site: web-modules
	@node web/site.mjs build/web/site

web: web-site ## Build the page (build/web/site) and the npm package (build/web/package)
	@node web/package.mjs build/web/package

web-serve: web-site ## Serve the page on this machine (PORT, 8080)
	@node web/serve.mjs build/web/site --port $(or $(PORT),8080)

web-test: web ## Build the page and run its tests, under Node and in Chromium
	@for folder in web web/test/vite; do (cd $$folder && { [ node_modules/.package-lock.json -nt package-lock.json ] || \
	    npm ci --ignore-scripts --silent; }) || exit 1; done
	@cd web && npm run --silent test

bench: build ## Measure speed as a share of this machine's memory bandwidth
	@scripts/bench.sh $(ARGS)

deb: deps ## Build Debian packages (tern, libtern0, libtern-dev, tern-mpi, tern-torrent, tern-cuda) in build/release/packages
	@$(CMAKE_QUIET) --preset release $(CUDA_ALL)
	@cmake --build --preset release --target install_needs -- --quiet
	@cd build/release && cpack | sed -n 's/^CPack: - package: \(.*\) generated.$$/\1/p'

static: deps ## Build the command as one file that runs on any Linux of this CPU, in build/static
	@$(CMAKE_QUIET) --preset static >/dev/null
	@cmake --build --preset static -- --quiet
	@$(call static_root,static)

static-arm64: deps-ci ## The same for 64-bit ARM, in build/static-arm64
	@$(CMAKE_QUIET) --preset static-arm64 >/dev/null
	@cmake --build --preset static-arm64 -- --quiet
	@$(call static_root,static-arm64)

python-wheel: deps ## Build a wheel of the Python package, which holds the library and tern-cuda.so, in build/python
	@$(CMAKE_QUIET) --preset release $(CUDA_ALL)
	@cmake --build --preset release --target wheel_needs
	@python3 python/wheel.py build/release/libtern.so build/python

install: deps ## Install the command, the libraries, modules and the bundled models (PREFIX; DESTDIR, as a package)
	@$(CMAKE_QUIET) --preset release $(if $(DESTDIR),$(CUDA_ALL),$(CUDA_ASKED))
	@cmake --build --preset release --target install_needs
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

uninstall: ## Remove what `make install` has installed last (PREFIX and DESTDIR as they were then)
	@scripts/uninstall.sh build/release/install_manifest.txt "$(DESTDIR)" "$(PREFIX)"

asan tsan clang: deps-ci ## Build and test with sanitizers, or with clang
	@$(CMAKE_QUIET) --preset $@
	@cmake --build --preset $@
	@ctest --preset $@ -j $(JOBS)

fuzz: deps-ci ## Run every fuzzer for 5 seconds, or as ARGS say (scripts/fuzz.sh --help)
	@$(CMAKE_QUIET) --preset asan
	@cmake --build --preset asan
	@scripts/fuzz.sh $(ARGS)

arm64: deps-ci ## Build for 64-bit ARM and test under qemu
	@$(CMAKE_QUIET) --preset arm64
	@cmake --build --preset arm64
	@ctest --preset arm64 -j $(JOBS)

lint: deps-ci ## Run clang-tidy over the sources, and check includes and layout
	@$(CMAKE_QUIET) --preset clang
	@scripts/lint.sh build/clang

clean: ## Remove everything that was built
	@rm -rf build
