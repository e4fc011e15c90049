#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The floors: a file includes only from its own floor and below, foreign libraries stay where they
# belong, and private headers stay in their folder. Tests belong to the floor that they test.
set -u

cd "${GMV_SRCDIR:-.}" || exit 1
. tests/lint/tap.sh

lint_floors='base model device registry ops codec http gmvd'

# "FILE: HEADER" for every include line of the project's own code.
lint_includes()
{
    lint_sources include src | while read -r file; do
        sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]\([^>"]*\)[>"].*/\1/p' "$file" |
            sed "s|^|$file: |"
    done
}

# Complains of includes that climb. Reads lines of lint_includes.
lint_find_climbing()
{
    awk -v floors="$lint_floors" '
        function floor_of(path) {
            sub(/^(include\/gmv|src|gmv)\//, "", path)
            sub(/\/.*/, "", path)
            return path in level ? level[path] : 0
        }
        BEGIN { n = split(floors, names, " "); for (i = 1; i <= n; i++) level[names[i]] = i }
        {
            file = $1
            sub(/:$/, "", file)
            from = floor_of(file)
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
src/ops/x.c: gmv/base/num.h'
    [ "$(printf '%s\n' "$bad" | lint_find_climbing | wc -l)" -eq 3 ] ||
        echo "an include that climbs is not seen"
    [ -n "$(echo 'src/http/x.c: jansson.h' | lint_find_outside 'jansson\.h' src/codec)" ] ||
        echo "jansson outside codec is not seen"
    [ -z "$(echo 'src/codec/x.c: jansson.h' | lint_find_outside 'jansson\.h' src/codec)" ] ||
        echo "jansson inside codec is taken for an error"
    [ -n "$(echo 'src/http/x.c: ops/packed_priv.h' | lint_find_strayed)" ] ||
        echo "a private header of another folder is not seen"
    [ -z "$(echo 'src/ops/x.c: ops/packed_priv.h' | lint_find_strayed)" ] ||
        echo "a private header of the own folder is taken for an error"
    [ -n "$(echo 'include/gmv/ops/x.h: ops/packed_priv.h' | lint_find_leaks)" ] ||
        echo "a private header in a public one is not seen"
    [ "$(lint_includes | wc -l)" -gt 100 ] || echo "hardly any include is found"
}

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-floors.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
lint_includes >"$work/includes"

lint_self_test >"$work/out"
tap_check 'the checks see planted errors' <"$work/out"
lint_find_unknown >"$work/out"
tap_check 'every folder is a floor' <"$work/out"

for check in \
    'no include climbs|lint_find_climbing' \
    'jansson is used by codec alone|lint_find_outside jansson src/codec' \
    'libmicrohttpd is used by http alone|lint_find_outside microhttpd src/http' \
    'CUDA is used by device/cuda alone|lint_find_outside (cuda|cub/|nvtx|driver_types|vector_types|device_launch) src/device/cuda' \
    'Criterion is used by tests alone|lint_find_outside criterion tests' \
    'private headers stay in their folder|lint_find_strayed' \
    'public headers include public headers alone|lint_find_leaks' \
    'includes name their path from the root|lint_find_relative'
do
    ${check#*|} <"$work/includes" >"$work/out"
    tap_check "${check%%|*}" <"$work/out"
done
tap_done
