#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# C files are laid out as clang-format 14 lays them out by .clang-format. Other versions differ in
# small things, so they are not asked.
set -u

cd "${GMV_SRCDIR:-.}" || exit 1
. tests/lint/tap.sh

lint_formatter()
{
    for formatter in ${CLANG_FORMAT:-} clang-format-14 clang-format; do
        "$formatter" --version 2>/dev/null | grep -q 'version 14\.' || continue
        echo "$formatter"
        return
    done
}

description='C files are laid out by .clang-format'
formatter=$(lint_formatter)
if [ -z "$formatter" ]; then
    tap_skip "$description" 'clang-format 14 is not here'
    tap_done
    exit
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-format.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

printf 'int  x ;\n' >"$work/planted.c"
cp .clang-format "$work"
if "$formatter" --dry-run -Werror "$work/planted.c" 2>/dev/null; then
    echo "$formatter accepts a line that is laid out otherwise"
fi >"$work/out"
tap_check 'the check sees a planted error' <"$work/out"

# It names a file and a line for each place; what it says otherwise is shown as it is.
lint_sources include src tests bench examples | grep -E '\.[ch]$' |
    xargs "$formatter" --dry-run -Werror --ferror-limit=1 2>&1 | grep -E '^[^ ].*: (error|warning):|^[^ ]*rror' |
    sed 's/:[0-9]*:[0-9]*: error: code should be clang-formatted.*/: run clang-format -i on it/' | sort -u >"$work/out"
tap_check "$description" <"$work/out"
tap_done
