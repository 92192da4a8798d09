#!/bin/sh
# The types of the Python package, by mypy's strict rules. Usage: types.sh REPOSITORY BUILD_FOLDER
set -eu
if ! command -v mypy >/dev/null; then
    echo "mypy was not found: the types of python/tern are not checked"
    [ "${CI:-}" != true ]
    exit
fi
cd "$1"
mypy --strict --cache-dir "$2/scratch/mypy" --python-version 3.9 python/tern
