#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The floors: a file includes only from its own floor and below, foreign libraries stay where they
# belong, and private headers stay in their folder. Tests belong to the floor that they test; those
# of the program itself lie with http's.
set -u

cd "${GMV_SRCDIR:-.}" || exit 1
. tests/lint/tap.sh

lint_floors='base model device registry ops codec http gmvd'

# lint_includes FOLDER...: "FILE: HEADER" for every include line of the project's own code.
lint_includes()
{
    lint_sources "$@" | while read -r file; do
        sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]\([^>"]*\)[>"].*/\1/p' "$file" |
            sed "s|^|$file: |"
    done
}

# Complains of includes that climb. Reads lines of lint_includes.
lint_find_climbing()
{
    awk -v floors="$lint_floors" '
        function floor_of(path) {
            sub(/^(include\/gmv|src|tests|gmv)\//, "", path)
            sub(/\/.*/, "", path)
            return path in level ? level[path] : 0
        }
        BEGIN { n = split(floors, names, " "); for (i = 1; i <= n; i++) level[names[i]] = i }
        {
            file = $1
            sub(/:$/, "", file)
            from = floor_of(file ~ /^tests\/http\// ? "gmvd/" : file)
            to = $2 ~ /\// ? floor_of($2) : 0
            if (from && to > from)
                print file " includes " $2
        }'
}

# lint_find_outside PATTERN FOLDERS: includes that match the pattern in a file outside the folders.
lint_find_outside()
{
    grep -E ": ($1)" | grep -vE "^($2)/" || true
}

# Private headers are written "floor/.../x_priv.h", from a file in that very folder.
lint_find_strayed()
{
    awk '$2 ~ /_priv\.h$/ {
        file = $1
        sub(/:$/, "", file)
        folder = file
        sub(/^src\//, "", folder)
        sub(/\/[^\/]*$/, "", folder)
        header = $2
        sub(/\/[^\/]*$/, "", header)
        if (header != folder)
            print file " includes " $2
    }'
}

# What the library keeps in src is for its own floor: others, and whoever embeds it, have <gmv/...>.
lint_find_inner()
{
    awk '/^src\// {
        split($1, file, "/")
        split($2, header, "/")
        if (header[1] ~ /^(base|model|device|registry|ops)$/ && header[1] != file[2])
            print substr($1, 1, length($1) - 1) " includes " $2
    }'
}

# The backends know nothing of each other, and what lies above them nothing of either.
lint_find_backends()
{
    awk '$2 ~ /^device\/(host|cuda)\// && /^src\// {
        split($2, header, "/")
        if (index($1, "src/device/" header[2] "/") != 1)
            print substr($1, 1, length($1) - 1) " includes " $2
    }'
}

# Public headers may include the C library and each other, nothing else.
lint_find_leaks()
{
    grep -E '^include/' |
        grep -vE ': (gmv/[a-z]+/[a-z0-9_]+\.h|(std[a-z]+|inttypes|limits|float)\.h|atomic)$' || true
}

# A floor that is not in the list would escape the check of climbing.
lint_find_unknown()
{
    for folder in src/* include/gmv/*; do
        [ -d "$folder" ] || continue
        case " $lint_floors " in
            *" ${folder##*/} "*) ;;
            *) echo "$folder is not one of the floors: $lint_floors" ;;
        esac
    done
}

lint_find_relative()
{
    grep -E ': (\./|\.\./|[^:]*/\.\./)' || true
}

# The checks must see what they are meant to see.
lint_self_test()
{
    bad='src/base/x.c: gmv/model/slice.h
src/codec/x.c: http/handler.h
include/gmv/model/x.h: gmv/ops/view.h
tests/model/x.c: ops/fixture.h
tests/ops/x.c: ops/fixture.h
src/ops/x.c: gmv/base/num.h'
    [ "$(printf '%s\n' "$bad" | lint_find_climbing | wc -l)" -eq 4 ] ||
        echo "an include that climbs is not seen"
    [ -n "$(echo 'src/http/x.c: jansson.h' | lint_find_outside 'jansson\.h' src/codec)" ] ||
        echo "jansson outside codec is not seen"
    [ -z "$(echo 'src/codec/x.c: jansson.h' | lint_find_outside 'jansson\.h' src/codec)" ] ||
        echo "jansson inside codec is taken for an error"
    [ -n "$(echo 'src/http/x.c: ops/packed_priv.h' | lint_find_strayed)" ] ||
        echo "a private header of another folder is not seen"
    [ -z "$(echo 'src/ops/x.c: ops/packed_priv.h' | lint_find_strayed)" ] ||
        echo "a private header of the own folder is taken for an error"
    [ -n "$(echo 'src/ops/x.c: device/tiles.h' | lint_find_inner)" ] ||
        echo "an inner header of another floor is not seen"
    [ -z "$(echo 'src/device/host/x.c: device/tiles.h' | lint_find_inner)" ] ||
        echo "an inner header of the own floor is taken for an error"
    [ -n "$(echo 'src/device/cuda/x.c: device/host/host.h' | lint_find_backends)" ] ||
        echo "a backend that includes the other is not seen"
    [ -n "$(echo 'src/device/x.c: device/host/host.h' | lint_find_backends)" ] ||
        echo "a backend that is included from above is not seen"
    [ -z "$(echo 'src/device/host/x.c: device/host/host.h' | lint_find_backends)" ] ||
        echo "a header of the own backend is taken for an error"
    [ -n "$(echo 'include/gmv/ops/x.h: ops/packed_priv.h' | lint_find_leaks)" ] ||
        echo "a private header in a public one is not seen"
    [ "$(wc -l <"$work/includes")" -gt 100 ] && [ -s "$work/of-tests" ] || echo "hardly any include is found"
}

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-floors.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
lint_includes include src >"$work/includes"
# shellcheck disable=SC2046,SC2086
lint_includes $(printf 'tests/%s ' $lint_floors) >"$work/of-tests"

lint_self_test >"$work/out"
tap_check 'the checks see planted errors' <"$work/out"
lint_find_unknown >"$work/out"
tap_check 'every folder is a floor' <"$work/out"
lint_find_climbing <"$work/of-tests" >"$work/out"
tap_check 'no test climbs' <"$work/out"

for check in \
    'no include climbs|lint_find_climbing' \
    'jansson is used by codec alone|lint_find_outside jansson src/codec' \
    'libmicrohttpd is used by http alone|lint_find_outside microhttpd src/http' \
    'CUDA is used by device/cuda alone|lint_find_outside (cuda|cub/|nvtx|driver_types|vector_types|device_launch) src/device/cuda' \
    'Criterion is used by tests alone|lint_find_outside criterion tests' \
    'private headers stay in their folder|lint_find_strayed' \
    'headers of the library in src stay on their floor|lint_find_inner' \
    'the backends stay apart|lint_find_backends' \
    'public headers include public headers alone|lint_find_leaks' \
    'includes name their path from the root|lint_find_relative'
do
    ${check#*|} <"$work/includes" >"$work/out"
    tap_check "${check%%|*}" <"$work/out"
done
tap_done
