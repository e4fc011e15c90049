#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the library puts into the name space of the programs that link it: gmv_ names that a public header declares,
# and, in the archive, gmv__ names that its own files share. Needs the built library. Prints TAP.
set -u

source=$(CDPATH='' cd -- "${GMV_SRCDIR:-.}" && pwd) || exit 1
build=$(CDPATH='' cd -- "${GMV_BUILDDIR:-$source/build}" && pwd) || exit 1
cd "$source" || exit 1
. tests/lint/tap.sh

archive=$build/.libs/libgmv.a
shared=$build/.libs/libgmv.so
nm=${NM:-nm}
if ! command -v "${nm%% *}" >/dev/null 2>&1; then
    echo '1..0 # SKIP there is no nm'
    exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-symbols.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# Functions and objects that the headers on standard input declare without defining them, one a line: statements
# outside of braces that are neither static nor a type, without comments, directives and attribute macros.
symbols_declared()
{
    sed -e 's|/\*.*\*/||g' -e '/\/\*/,/\*\//d' | sed -e ':next' -e '/\\$/{N;s/\\\n//;b next' -e '}' -e '/^ *#/d' |
        awk '
            function end_statement() {
                gsub(/GMV_[A-Z_]+(\([^()]*\))?/, "", statement)
                if (statement !~ /(^| )(static |typedef |struct [a-z_]+ *(\{|$)|enum |union )/ &&
                    match(statement, /gmv_[a-z0-9_]+ *(\(|\[|$)/)) {
                    name = substr(statement, RSTART, RLENGTH)
                    sub(/ *[([]?$/, "", name)
                    print name
                }
                statement = ""
            }
            {
                n = length($0)
                for (i = 1; i <= n; i++) {
                    c = substr($0, i, 1)
                    if (c == "{" && depth++ == 0)
                        statement = statement c
                    else if (c == "}" && --depth == 0 && statement ~ /(^| )static /)
                        statement = ""
                    else if (c == ";" && depth == 0)
                        end_statement()
                    else if (depth == 0 && c != "}")
                        statement = statement c
                }
                statement = statement " "
            }' | LC_ALL=C sort -u
}

# Names that the file on standard input, a listing of nm, defines for others. Those with two underscores in front are
# the compiler's own: sanitizers add some.
symbols_listed()
{
    awk 'NF == 3 && $2 ~ /^[A-Z]$/ && $3 !~ /^__/ { print $3 }' | LC_ALL=C sort -u
}

# symbols_strange LISTED DECLARED: names that a program which links the library has no reason to expect.
symbols_strange()
{
    grep -v '^gmv__[a-z]' "$1" | LC_ALL=C comm -23 - "$2"
}

find include/gmv -name '*.h' -exec cat {} + | symbols_declared >"$work/declared"

symbols_declared >"$work/planted" <<'END'
GMV_BEGIN_DECLS
static inline int gmv_inline(int x)
{
    return gmv_inner(x);
}
GMV_NODISCARD static inline int gmv_checked(void) { return 1; }
GMV_NODISCARD int gmv_plain(int x, /* gmv_comment(); */
                            int y);
#define GMV_CALL(x) \
    gmv_macro(x);
typedef int (*gmv_type)(int x);
typedef struct gmv_pair {
    int x;
} gmv_pair;
struct gmv_known;
struct gmv_whole {
    int x;
};
const struct gmv_pair *gmv_pointer(const char *format, ...) GMV_PRINTF(1, 2);
extern const int gmv_number;
END
printf '%s\n' '0 T gmv_plain' '0 T helper' '0 t local' '0 T gmv__inner' '0 T __tool' '0 D gmv_hidden' |
    symbols_listed >"$work/planted-listed"
{
    [ "$(tr '\n' ' ' <"$work/planted")" = 'gmv_number gmv_plain gmv_pointer ' ] || {
        echo 'declarations are not read as they stand:'
        cat "$work/planted"
    }
    [ "$(symbols_strange "$work/planted-listed" "$work/planted" | tr '\n' ' ')" = 'gmv_hidden helper ' ] ||
        echo 'a name that strays is not seen'
    [ "$(wc -l <"$work/declared")" -ge 200 ] || echo 'hardly any declaration is found'
} >"$work/out"
tap_check 'the checks see planted errors' <"$work/out"

if [ -f "$archive" ]; then
    $nm -g --defined-only "$archive" 2>/dev/null | symbols_listed >"$work/listed"
    symbols_strange "$work/listed" "$work/declared" >"$work/out"
    tap_check 'the archive defines declared names and gmv__ names alone' <"$work/out"
    LC_ALL=C comm -13 "$work/listed" "$work/declared" >"$work/out"
    tap_check 'all that public headers declare is in the archive' <"$work/out"
    $nm -g --undefined-only "$archive" 2>/dev/null | grep -oE '\<(MHD|json|jansson|cu[A-Z])_?[A-Za-z_]*' >"$work/out"
    tap_check 'the archive needs neither HTTP nor JSON, nor a driver' <"$work/out"
else
    tap_skip 'the archive defines declared names and gmv__ names alone' 'no archive is built'
fi

if [ -f "$shared" ]; then
    $nm -D --defined-only "$shared" 2>/dev/null | symbols_listed >"$work/listed"
    LC_ALL=C comm -3 "$work/listed" "$work/declared" >"$work/out"
    tap_check 'the shared library exports what public headers declare, and nothing else' <"$work/out"
else
    tap_skip 'the shared library exports what public headers declare, and nothing else' 'none is built'
fi
tap_done
