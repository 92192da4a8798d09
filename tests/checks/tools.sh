#!/bin/sh
# What some tests need and are skipped without: larger golden files and drivers of emulated GPUs. Under CI=true none may
# be missing, but for the files in a clone that is alone (TERN_TEST_BARE=1).
# Usage: tools.sh SOURCE_FOLDER LAVAPIPE   (the driver's file, or a word that ends in NOTFOUND, or nothing)
set -eu
source=$1 lavapipe=$2
missing=
if [ ! -d "${TERN_SHARED:-$source/../shared}/fixtures" ] && [ "${TERN_TEST_BARE:-}" != 1 ]; then
    missing="$missing golden-files(../shared)"
fi
if [ ! -f "$lavapipe" ]; then missing="$missing lavapipe(mesa-vulkan-drivers)"; fi
if ! "$source/tests/checks/swiftshader.sh" > /dev/null 2>&1; then missing="$missing SwiftShader(chromium)"; fi
if [ -z "$missing" ]; then exit 0; fi
echo "Missing:$missing. Tests that need them are skipped."
if [ "${CI:-}" = true ]; then exit 1; fi
