# SPDX-License-Identifier: Apache-2.0
# For the scripts beside it: one TAP test for each check, with the offending places as its reason.
# A script sources this file, calls tap_check once a check, and ends with tap_done.

tap_count=0
tap_failed=0

# tap_check DESCRIPTION: reads complaints from standard input; none means that the check passes.
tap_check()
{
    tap_count=$((tap_count + 1))
    tap_complaints=$(cat)
    if [ -z "$tap_complaints" ]; then
        echo "ok $tap_count - $1"
        return 0
    fi
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $1"
    printf '%s\n' "$tap_complaints" | head -n 50 | sed 's/^/# /'
}

# tap_skip DESCRIPTION REASON
tap_skip()
{
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

tap_done()
{
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
}

# The C sources and headers of the tree, one a line; arguments are folders.
lint_sources()
{
    find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o \
        -name '*.def' \) 2>/dev/null | LC_ALL=C sort
}
