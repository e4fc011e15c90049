#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Text rules: licence line first, blanks instead of tabs in C, nothing at line ends, no open ends.
set -u

cd "${GMV_SRCDIR:-.}" || exit 1
. tests/lint/tap.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-words.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
tab=$(printf '\t')

# The texts that people of this project write; vectors, corpora and the licence are data.
lint_texts()
{
    find include src tests bench examples m4 scripts docs api packaging .github \
        configure.ac Makefile.am autogen.sh build-aux/embed.sh README.md CHANGELOG.md \
        CONTRIBUTING.md SECURITY.md -type f \
        \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' -o -name '*.sh' -o \
        -name '*.py' -o -name '*.mk' -o -name '*.m4' -o -name '*.am' -o -name '*.ac' -o \
        -name '*.md' -o -name '*.yaml' -o -name '*.yml' \) 2>/dev/null |
        grep -vE '^(tests/vectors|tests/fuzz/corpus|m4/(libtool|lt))' |
        grep -vE '/(__pycache__|node_modules|\.venv)/' | LC_ALL=C sort
}

lint_c_files()
{
    lint_sources "$@"
}

# lint_grep PATTERN: matching lines of the files that are named on standard input.
lint_grep()
{
    while read -r file; do
        grep -nHE -e "$1" "$file"
    done
    true
}

# The licence line is the first, in the comment of the language.
lint_unlicensed()
{
    while read -r file; do
        case $(head -n 1 "$file") in
            '/* SPDX-License-Identifier: Apache-2.0 */') ;;
            *) echo "$file: the first line is not the licence line" ;;
        esac
    done
}

lint_unlicensed_scripts()
{
    while read -r file; do
        head -n 2 "$file" | grep -q '^# SPDX-License-Identifier: Apache-2.0$' ||
            echo "$file: no licence line among the first two"
    done
}

lint_no_newline_at_end()
{
    while read -r file; do
        [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ] && echo "$file: no newline at the end"
    done
    true
}

# Marks of unfinished work; spelled in two parts so that this file does not hold them.
open_ends="(TO""DO|FIX""ME)([^A-Za-z0-9_]|\$)"

mkdir "$work/planted"
printf '%s\n' "/* no licence */" "${tab}int x; " "/* TO""DO */" >"$work/planted/x.c"
{
    echo "$work/planted/x.c" | lint_grep "^ *$tab" | grep -q . || echo 'a tab is not seen'
    echo "$work/planted/x.c" | lint_grep "[ $tab]+\$" | grep -q . || echo 'a blank is not seen'
    echo "$work/planted/x.c" | lint_grep "$open_ends" | grep -q . || echo 'an open end is not seen'
    echo "$work/planted/x.c" | lint_unlicensed | grep -q . || echo 'no licence is not seen'
    [ "$(lint_texts | wc -l)" -gt 60 ] || echo 'hardly any file is found'
} >"$work/out"
tap_check 'the checks see planted errors' <"$work/out"

lint_c_files include src tests bench examples | lint_grep "^ *$tab" >"$work/out"
tap_check 'C is indented with blanks' <"$work/out"

lint_texts | lint_grep "[ $tab]+\$" >"$work/out"
tap_check 'no line ends in a blank' <"$work/out"

lint_texts | lint_grep "$open_ends" >"$work/out"
tap_check 'nothing is marked as unfinished' <"$work/out"

lint_c_files include src tests bench examples | lint_unlicensed >"$work/out"
tap_check 'C files begin with the licence line' <"$work/out"

lint_texts | grep -E '\.(sh|py)$' | lint_unlicensed_scripts >"$work/out"
tap_check 'scripts begin with the licence line' <"$work/out"

lint_texts | lint_no_newline_at_end >"$work/out"
tap_check 'files end in a newline' <"$work/out"
tap_done
