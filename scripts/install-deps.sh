#!/bin/sh
# Installs what Tern needs, on Debian: to build it, with --test also to test it, with --web to build the web page (and
# nothing else), with --ci all that .ci/run uses.
# Does nothing when it is all there; then neither the network nor root is needed.
# Usage: install-deps.sh [--test | --web | --ci]
set -eu

build='gcc libc6-dev make cmake ninja-build pkg-config libpcre2-dev libjansson-dev libedit-dev libmd-dev
    libvulkan-dev libmicrohttpd-dev libcurl4-openssl-dev libopenmpi-dev
    g++ libtorrent-rasterbar-dev'
test='libcmocka-dev mesa-vulkan-drivers python3 openmpi-bin iproute2'
web='cmake ninja-build emscripten nodejs npm'
ci='ccache dpkg-dev debootstrap
    clang clang-format clang-tidy libclang-rt-14-dev llvm gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    qemu-user-static
    libpcre2-dev:arm64 libjansson-dev:arm64 libcmocka-dev:arm64 libedit-dev:arm64 libmd-dev:arm64
    libmicrohttpd-dev:arm64 libcurl4-openssl-dev:arm64 chromium vulkan-validationlayers spirv-tools nodejs npm
    python3-jinja2 python3-jsonschema mypy firefox-esr webkit2gtk-driver xvfb xauth nginx libnginx-mod-http-js'

case ${1-} in
    '') wanted=$build ;;
    --test) wanted="$build $test" ;;
    --web) wanted=$web ;;
    --ci) wanted="$build $test $ci $web" ;;
    *) echo "usage: install-deps.sh [--test | --web | --ci]" >&2; exit 2 ;;
esac

# Whatever system this is: are the tools and libraries of a plain build there?
tools_present() {
    for tool in cc cmake ninja pkg-config; do command -v "$tool" >/dev/null || return 1; done
    pkg-config --exists libpcre2-8 jansson libedit libmd libmicrohttpd libcurl || return 1
    echo '#include <vulkan/vulkan_core.h>' | cc -E -x c - >/dev/null 2>&1 || return 1
    [ "${1-}" = '' ] || { pkg-config --exists cmocka && vulkan_present; }
}

# Tests on a GPU are skipped where there is none; on Debian there can be one of software.
vulkan_present() {
    ! command -v apt-get >/dev/null || ls /usr/share/vulkan/icd.d/lvp_icd.*.json >/dev/null 2>&1
}

# Node from wherever it came; chromium is there for its SwiftShader, a Vulkan device of software.
node_present() {
    command -v npm >/dev/null && [ "$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')" -ge 18 ] 2>/dev/null
}

web_present() {
    for tool in cmake ninja emcc; do command -v "$tool" >/dev/null || return 1; done
    node_present
}

missing_packages() {
    for package in $wanted; do
        case $package in nodejs | npm) if node_present; then continue; fi ;; esac
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
        case $state in installed*) ;; *) printf '%s ' "$package" ;; esac
    done
}

case ${1-} in
    --ci) ;;
    --web) if web_present; then exit 0; fi ;;
    *) if tools_present "${1-}"; then exit 0; fi ;;
esac
if ! command -v apt-get >/dev/null; then
    echo "This is not Debian, so nothing was installed. Tern needs a C11 compiler, CMake 3.25, ninja, pkg-config," >&2
    echo "PCRE2, jansson, libedit, libmd, libmicrohttpd and libcurl with their headers, and the Vulkan headers;" >&2
    echo "its tests need cmocka and a Vulkan driver as well." >&2
    echo "The web page needs CMake, ninja, Emscripten 3.1.6 and Node 18 with npm." >&2
    exit 1
fi
missing=$(missing_packages)
[ -n "$missing" ] || exit 0

echo "Installing: $missing"
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "Run as root, or install sudo: apt-get install $missing" >&2; exit 1; }
    as_root=sudo
fi
case $missing in *:arm64*) $as_root dpkg --add-architecture arm64 ;; esac
$as_root apt-get update -qq
# shellcheck disable=SC2086 # package names are words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing </dev/null
