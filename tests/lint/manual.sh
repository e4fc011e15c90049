#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The option table, --help and the manual page know the same options with the same choices and defaults; and what
# README and the other texts call an option of gmvd is one. Needs the built gmvd. Prints TAP.
set -u

build=$(CDPATH='' cd -- "${GMV_BUILDDIR:-.}" && pwd) || exit 1
cd "${GMV_SRCDIR:-.}" || exit 1
. tests/lint/tap.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-manual.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# Options by their names alone, one a line, sorted: from the table and the actions, from --help, from the page.
manual_of_table()
{
    sed -n '/^static const option_setting option_settings/,/^};/s/^ *{"\([a-z-]*\)",.*/\1/p; s/^ *{"--\([a-z-]*\)", GMVD_.*/\1/p' \
        src/gmvd/options.c | sort
}

manual_of_help()
{
    grep -E '^  (-[a-z], )?--' "$work/help" | grep -oE '(^  |, )--[a-z-]+' | grep -oE '[a-z][a-z-]*$' | sort
}

manual_of_page()
{
    sed -n 's/^\.It Fl \(h , \)\{0,1\}-\([a-z-]*\).*/\2/p' "$1" | sort
}

# manual_differ NAME-A FILE-A NAME-B FILE-B
manual_differ()
{
    comm -23 "$2" "$4" | sed "s|^|$1 has --|; s|\$|, $3 has not|"
    comm -13 "$2" "$4" | sed "s|^|$3 has --|; s|\$|, $1 has not|"
}

# Choices ("NAME a|b|c") of --help and of the page.
manual_choices_of_help()
{
    sed -nE 's/^  --([a-z-]+) ([a-z]+(\|[a-z]+)+)( .*)?$/\1 \2/p' "$work/help" | sort
}

manual_choices_of_page()
{
    sed -n 's/^\.It Fl -\([a-z-]*\) Cm \(.*\)/\1 \2/p' docs/gmvd.8 | sed 's/ | /|/g' | sort
}

# Numbers that --help states as defaults, "NAME NUMBER"; the page must state them in the option's own paragraph.
manual_defaults_missing()
{
    awk '/^  --/ {name = substr($1, 3)} match($0, /\([0-9][0-9]*\)$/) {print name, substr($0, RSTART + 1, RLENGTH - 2)}' "$work/help" |
        while read -r name value; do
            [ "$value" != 0 ] || value='0, the default'
            sed -n "/^\.It Fl -$name /,/^\.\(It\|El\)/p" docs/gmvd.8 | sed 1d | grep -qE "(Default: $value\.|$value)" ||
                echo "gmvd.8 does not say that --$name is $value by default"
        done
}

# Options that the texts name, after the daemon's name or set apart by backquotes. Two pages are full of other
# programs': Docker's, generators'.
manual_unknown_in_texts()
{
    sort -u "$work/table" >"$work/known"
    for text in README.md SECURITY.md docs/*.md; do
        case $text in
            docs/containers.md | docs/clients.md) continue ;;
        esac
        grep -oE '(`|gmvd |healthcheck )--[a-z][a-z-]+' "$text" | grep -vx '`--json' | grep -oE '[a-z][a-z-]*$' |
            sort -u | comm -23 - "$work/known" | sed "s|^|$text speaks of --|; s|\$|, which gmvd has not|"
    done
}

# Environment variables named anywhere must belong to options.
manual_unknown_variables()
{
    sed 'y/abcdefghijklmnopqrstuvwxyz-/ABCDEFGHIJKLMNOPQRSTUVWXYZ_/; s/^/GMVD_/' "$work/table" | sort -u >"$work/variables"
    grep -ohE 'GMVD_[A-Z_]*[A-Z]' README.md SECURITY.md docs/*.md docs/gmvd.8 contrib/systemd/* docker/* 2>/dev/null |
        sort -u | comm -23 - "$work/variables" | sed 's/$/ is the variable of no option/'
}

if ! "$build/gmvd" --help >"$work/help" 2>"$work/out"; then
    echo "$build/gmvd --help fails" >>"$work/out"
fi
tap_check 'gmvd prints its options' <"$work/out"

manual_of_table >"$work/table"
manual_of_help >"$work/of-help"
manual_of_page docs/gmvd.8 >"$work/of-page"

{
    [ "$(wc -l <"$work/table")" -ge 20 ] || echo "hardly any option is found"
    sed 1d "$work/of-page" >"$work/planted"
    [ -n "$(manual_differ table "$work/table" page "$work/planted")" ] || echo "a missing option is not seen"
} >"$work/out"
tap_check 'the checks see a planted error' <"$work/out"

manual_differ 'the option table' "$work/table" --help "$work/of-help" >"$work/out"
tap_check 'the option table and --help agree' <"$work/out"
manual_differ 'the option table' "$work/table" docs/gmvd.8 "$work/of-page" >"$work/out"
tap_check 'the option table and the manual page agree' <"$work/out"
manual_choices_of_help >"$work/a"
manual_choices_of_page >"$work/b"
diff "$work/a" "$work/b" >"$work/out"
tap_check 'choices in --help and in the manual page agree' <"$work/out"
manual_defaults_missing >"$work/out"
tap_check 'the manual page states the defaults of --help' <"$work/out"
manual_unknown_in_texts >"$work/out"
tap_check 'options that the texts speak of exist' <"$work/out"
manual_unknown_variables >"$work/out"
tap_check 'environment variables that the texts speak of exist' <"$work/out"

if command -v mandoc >/dev/null 2>&1; then
    mandoc -T lint -W warning docs/gmvd.8 >"$work/out" 2>&1
    tap_check 'the manual page is well formed' <"$work/out"
else
    tap_skip 'the manual page is well formed' 'there is no mandoc'
fi
tap_done
