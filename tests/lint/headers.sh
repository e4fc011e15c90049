#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone, as C17 and as C++17, without a warning; and is installed.
set -u

cd "${GMV_SRCDIR:-.}" || exit 1
. tests/lint/tap.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-headers.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# lint_compile HEADER COMPILER...: what the compiler says of a file that includes nothing else.
# Twice, so that a header without a guard is found.
lint_compile()
{
    header=$1
    shift
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$work/$suffix"
    "$@" -Iinclude -Wall -Wextra -Werror -fsyntax-only "$work/$suffix" 2>&1 || true
}

lint_public_headers()
{
    (cd include && find gmv -name '*.h' | LC_ALL=C sort)
}

lint_compile_all()
{
    lint_public_headers | while read -r header; do
        lint_compile "$header" "$@"
    done
}

# Compilers of C++ that are there, by the name that goes with the C compiler first.
lint_cxx()
{
    for cxx in ${CXX:-} c++ g++ clang++; do
        if command -v "$cxx" >/dev/null 2>&1; then
            echo "$cxx"
            return
        fi
    done
}

lint_not_installed()
{
    lint_public_headers | while read -r header; do
        grep -qs "include/$header" src/*/local.mk src/local.mk ||
            echo "include/$header is in no local.mk"
    done
    # It would put them below include/include.
    grep -s nobase_include_HEADERS src/*/local.mk src/local.mk |
        sed 's/ *+=.*//; s/$/: name it gmvFLOOR_HEADERS, as the others of the floor/'
}

lint_unguarded()
{
    lint_public_headers | while read -r header; do
        guard=$(echo "$header" | tr 'a-z/.' 'A-Z__')
        grep -q "^#ifndef $guard\$" "include/$header" && continue
        echo "include/$header has no guard $guard"
    done
}

suffix=alone.c
printf 'gmv_no_such_type gmv_x;\n' >"$work/broken.h"
planted=$( (cd "$work" && ${CC:-cc} -fsyntax-only broken.h) 2>&1)
{ [ -n "$planted" ] || echo "${CC:-cc} accepts a header that is broken"; } >"$work/out"
[ "$(lint_public_headers | wc -l)" -ge 20 ] || echo "hardly any header is found" >>"$work/out"
tap_check 'the checks see a planted error' <"$work/out"

lint_compile_all ${CC:-cc} -std=c17 -x c >"$work/out"
tap_check 'every public header compiles alone as C17' <"$work/out"

cxx=$(lint_cxx)
if [ -n "$cxx" ]; then
    suffix=alone.cc
    lint_compile_all "$cxx" -std=c++17 -x c++ >"$work/out"
    tap_check 'every public header compiles alone as C++17' <"$work/out"
else
    tap_skip 'every public header compiles alone as C++17' 'there is no C++ compiler'
fi

lint_unguarded >"$work/out"
tap_check 'every public header is guarded by its path' <"$work/out"

lint_not_installed >"$work/out"
tap_check 'every public header is installed' <"$work/out"
tap_done
