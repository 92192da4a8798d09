#!/usr/bin/env bash
# Tests that take minutes and rarely say something new, in groups: .ci/run takes one of them, in turns by the number of
# commits; `make test-all` takes all. They need what .ci/run installs (install-deps.sh --ci).
# Usage: slow-tests.sh --list | --turn N | --after NAME | --missing | all | NAME ...
#   --turn N      prints the name of the group that is taken in turn N, and the offset of its quick runs
#   --after NAME  prints the step of .ci/run in whose build folder it works
#   --missing     fails where a test with the label `long` of build/release is in no group
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)} listed=

# name, step of .ci/run whose build it goes on with, what it proves that nothing else does
groups() {
    cat <<'END'
whole-commands      test    commands that train, tune, chat and convert, with all cases (label slow of apps and api)
whole-models        test    whole models beyond the goldens, with all cases (label slow of infer)
whole-training      test    training from end to end, gradients of every tensor, with all cases (label slow of train)
whole-simulated     test    every kernel and shape on the simulated GPU, which stops at races and accesses out of bounds
gpu-attention       test    kernels of attention on emulated GPUs; in make test-all with all cases
gpu-dense           test    products with dense weights on emulated GPUs; in make test-all with all cases
gpu-ternary         test    products with ternary weights on emulated GPUs, with all cases
gpu-experts         test    experts on emulated GPUs, with all cases
gpu-gradients       test    gradients on emulated GPUs, with all cases
gpu-rows            test    what works on rows on emulated GPUs: norms, sampling, the optimizer, with all cases
gpu-models          test    whole models on lavapipe: batches, generation, loading, adapters
gpu-training        test    trainers, ranks and commands on lavapipe
swiftshader-vulkan  test    the Vulkan backend on a second driver
swiftshader-models  test    the text of whole models on a second driver
network             test    ranks on two machines with a slow network between them
packages            test    the Debian packages, installed into a fresh system and removed
browsers            web     the page in Firefox and WebKitGTK
large               web     a model of 1.2 GB in Chromium
webgpu-attention    webgpu  kernels of attention as WGSL, on Dawn
webgpu-dense        webgpu  products with dense weights as WGSL, on Dawn
webgpu-sample       webgpu  sampling as WGSL, on Dawn
fuzz                asan    each fuzzer for 8 seconds, with a seed of its own
END
}

# names_of BUILD FLAG...: the tests that CTest would run. It is asked in a folder of its own, because asking overwrites
# LastTest.log, and a run of BUILD's tests may be under way.
names_of() {
    local folder
    folder=$(mktemp -d)
    printf 'subdirs("%s")\n' "$(realpath "$1")" >"$folder/CTestTestfile.cmake"
    ctest --test-dir "$folder" -N "${@:2}" 2>/dev/null | sed -n 's/^ *Test *#[0-9]*: //p'
    rm -r "$folder"
}
missing() {
    local name left
    listed=1
    left=$(comm -23 <(names_of build/release -L '^long$' | sort) \
        <(for name in $(groups | awk '$2 == "test" && $1 != "packages" { print $1 }'); do run_group "$name"; done |
            sort))
    [ -z "$left" ] || { printf 'in no group of scripts/slow-tests.sh: %s\n' $left; return 1; }
}
configure() { # PRESET TARGET...
    cmake --log-level=NOTICE --preset "$1"
    cmake --build --preset "$1" --target "${@:2}" -- --quiet
}
# ctest_cases PRESET FLAG...: with all cases, which take ten minutes, or, with TERN_TEST_WHOLE=0, from an offset on.
ctest_cases() {
    if [ -n "$listed" ]; then names_of "build/$1" "${@:2}"; return; fi
    configure "$1" tests
    TERN_TEST_WHOLE=${TERN_TEST_WHOLE-1} ctest --test-dir "build/$1" --no-tests=error --output-on-failure \
        -j "$jobs" "${@:2}"
}
ctest_whole() { TERN_TEST_WHOLE=1 ctest_cases "$@"; }
ctest_quick() { TERN_TEST_QUICK=1 TERN_TEST_WHOLE=0 ctest_cases "$@"; }
npm_install() (
    cd "$1"
    [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --ignore-scripts --silent
)
browser_test() {
    [ -x build/release/tern ] || make --silent build
    npm_install web
    make --silent web
    (cd web && TERN_WEB_REQUIRED=1 node --test --test-force-exit "test/browser/$1")
}

run_group() {
    case $1 in
    whole-commands) ctest_whole release -L '^slow$' -R '^(apps|api|serve)\.' ;;
    whole-models) ctest_whole release -L '^slow$' -R '^(infer|graph)\.' ;;
    whole-training) ctest_whole release -L '^slow$' -R '^train\.' ;;
    whole-simulated) ctest_whole release -R '^simulated\.|^gpu\.matrices$|\.simulated$' ;;
    gpu-attention) ctest_cases release -R '^gpu\.(attention|varlen_attention|rope)$' ;;
    gpu-dense) ctest_cases release -R '^gpu\.dense(_norm)?$' ;;
    gpu-ternary) ctest_whole release -R '^gpu\.(linear_ternary.*|groups)$' ;;
    gpu-experts) ctest_whole release -R '^gpu\.experts' ;;
    gpu-gradients) ctest_whole release -R '^gpu\.gradient(_cooperative)?$' ;;
    gpu-rows) ctest_whole release -R '^gpu\.(rows|sample|training_rows|update)$' ;;
    gpu-models) ctest_quick release -L '^long$' -R '^infer\..*\.vulkan$' ;;
    gpu-training) ctest_quick release -L '^long$' -R '^(train|apps)\..*\.vulkan$|^ranks_gpu_training$' ;;
    swiftshader-vulkan) ctest_quick release -R '^(vulkan|graph|api|apps)\..*\.swiftshader$' ;;
    swiftshader-models) ctest_quick release -R '^(infer|train)\..*swiftshader$' ;;
    network) ctest_quick release -R '^ranks_network$' ;;
    packages) make deb && scripts/try-packages.sh ;;
    browsers) browser_test others.test.mjs ;;
    large) browser_test large.test.mjs ;;
    webgpu-*) npm_install web && ctest_quick web -R "^gpu\\.${1#webgpu-}(_norm)?\$" ;;
    fuzz) configure asan tests && scripts/fuzz.sh --seconds 8 ;;
    *) echo "slow-tests.sh: $1: no such group (--list prints them)" >&2; return 2 ;;
    esac
}

case ${1-} in
    --list) groups ;;
    --turn) groups | awk -v turn="${2:?a number is expected}" '
        { name[NR - 1] = $1 }
        END { print name[turn % NR], int(turn / NR) }' ;;
    --after) groups | awk -v name="${2:?a name is expected}" '$1 == name { print $2 }' ;;
    --missing) missing ;;
    '' | -*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    all) for name in $(groups | awk '{ print $1 }'); do "$0" "$name"; done ;;
    *) for name in "$@"; do printf -- '--- %s\n' "$name"; run_group "$name"; done ;;
esac
