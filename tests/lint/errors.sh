#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/errors.md has a row for every code, with the status that problem documents of it have, and no other. Prints TAP.
set -u

cd "${GMV_SRCDIR:-.}" || exit 1
. tests/lint/tap.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-errors.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# "code status", sorted, from the status table and the switch over it.
errors_of_sources()
{
    sed -n 's/^ *X(\([A-Z_]*\), "\([a-z_]*\)".*/\1 \2/p' include/gmv/base/status.h | sort >"$work/codes"
    awk '/^int gmv_problem_http_status/ {inside = 1}
        inside && match($0, /GMV_ERR_[A-Z_]+/) {waiting[++n] = substr($0, RSTART + 8, RLENGTH - 8)}
        inside && match($0, /return [0-9]+/) {
            for (i = 1; i <= n; i++) print waiting[i], substr($0, RSTART + 7, RLENGTH - 7)
            n = 0
        }
        inside && /^}/ {exit}' src/codec/problem.c | sort >"$work/statuses"
    join "$work/codes" "$work/statuses" | cut -d ' ' -f 2,3 | sort
}

errors_of_page()
{
    sed -n 's/^| `\([a-z_]*\)` | \([0-9]*\) | ..* | ..* |$/\1 \2/p' "$1" | sort
}

errors_of_sources >"$work/sources"
errors_of_page docs/errors.md >"$work/page"
sed 's/^| `value_error` | 422 /| `value_error` | 400 /' docs/errors.md >"$work/planted.md"
errors_of_page "$work/planted.md" >"$work/planted"
{
    [ "$(wc -l <"$work/sources")" -eq "$(wc -l <"$work/codes")" ] || echo "a code has no status"
    [ "$(wc -l <"$work/sources")" -ge 40 ] || echo "hardly any code is found"
    ! cmp -s "$work/sources" "$work/planted" || echo "a wrong status is not seen"
} >"$work/out"
tap_check 'the checks see a planted error' <"$work/out"

{
    comm -23 "$work/sources" "$work/page" | sed 's/$/: errors.md has no such row/'
    comm -13 "$work/sources" "$work/page" | sed 's/$/: the sources have no such code and status/'
} >"$work/out"
tap_check 'docs/errors.md states every code with its status' <"$work/out"

uniq -d "$work/page" | sed 's/$/ stands there twice/' >"$work/out"
tap_check 'no code stands there twice' <"$work/out"
tap_done
