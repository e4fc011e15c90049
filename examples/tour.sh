#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The main job with curl, on real data: body masses of penguins, some of them missing.
#   examples/tour.sh http://127.0.0.1:8080
set -euo pipefail
cd "$(dirname "$0")"
G=$1/v1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Shows a step and the command, runs it, shows the answer's members that matter and keeps the answer in $answer.
step() { printf '\n# %s\n' "$1"; }
call() {
    local shown=$1
    shift
    local word
    printf '$ curl'
    for word in "$@"; do
        case $word in
            *[\ \{\?]*) printf " '%s'" "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done | sed "s|'\($G[^ ]*\)'|\"\1\"|g; s|$G|\$G|g; s|$folder/||g"
    printf '\n'
    answer=$(curl -sS "$@")
    show "$shown"
}
# The named top-level members of a JSON answer, in one line; good enough for a terminal, not a parser.
show() {
    local member separator='  {'
    for member in $1; do
        printf '%s"%s": %s' "$separator" "$member" "$(field "$member")"
        separator=', '
    done
    printf ', ...}\n'
}
field() {
    printf '%s' "$answer" | grep -oE "\"$1\": *(\"[^\"]*\"|\[[^]]*\]|[^,}]+)" | head -n 1 | sed -E "s/\"$1\": *//"
}
id() { field id | tr -d '"'; }
json() { call "$1" -X POST -H 'Content-Type: application/json' -d "$2" "$3"; }

# Column 6 of the table as little-endian float32, a missing value (NA) as NaN.
awk -F, 'NR > 1 {print $6}' data/penguins.csv | perl -ne 'chomp; print pack("f<", $_ eq "NA" ? "nan" : $_)' >"$folder/mass.f4"

step "344 body masses go into a buffer of the daemon's own"
call "id nbytes ptr origin" -H 'Content-Type: application/octet-stream' --data-binary "@$folder/mass.f4" "$G/buffers/upload?label=body_mass"
buffer=$(id) ptr=$(field ptr)

step "a CUDA Array Interface payload, as CuPy or PyTorch would post it, becomes a view"
json "id typestr shape nbytes contiguous" "{\"cuda_array_interface\": {\"data\": [$ptr, false], \"shape\": [344], \"typestr\": \"<f4\", \"version\": 3}}" "$G/views"
view=$(id)

step "the last four bytes are a slice of it, and their value is the last penguin's"
json "id ptr nbytes owners" '{"start": -4}' "$G/views/$view/byte_slice"
slice=$(id)
call "values" "$G/views/$view/values?offset=343"

step "missing values become a null mask"
json "null_count" "{\"input\": \"$view\"}" "$G/kernels/nans_to_nulls"
mask=$(id)

step "view and mask make a column, the column a table"
json "id size null_count nullable" "{\"type\": {\"name\": \"FLOAT32\"}, \"size\": 344, \"data\": \"$view\", \"null_mask\": \"$mask\"}" "$G/columns"
column=$(id)
json "id num_rows num_columns" "{\"columns\": [\"$column\"]}" "$G/tables"
table=$(id)

step "packed as cuDF packs it, byte for byte; the metadata can be read alone"
json "id num_rows metadata_nbytes gpu_data_nbytes" '{}' "$G/tables/$table/pack"
packed=$(id)
printf '$ curl $G/packed/%s/metadata | od -A d -t d4\n' "$packed"
curl -sS "$G/packed/$packed/metadata" | od -A d -t d4 | head -n 4

step "contiguous_split cuts it into partitions that live by themselves"
json "num_rows gpu_data_nbytes" '{"splits": [152, 220]}' "$G/tables/$table/contiguous_split"
printf '  rows of the parts: %s\n' "$(printf '%s' "$answer" | grep -oE '"num_rows": *[0-9]+' | grep -oE '[0-9]+' | tr '\n' ' ')"

step "unpacking gives the table back; its columns point into the packed buffer"
json "id num_rows columns" '{}' "$G/packed/$packed/unpack"
unpacked=$(id) inner=$(field columns | grep -oE 'col_[0-9a-z]+' | head -n 1)
call "count values" "$G/columns/$inner/values?limit=5"

step "a deleted parent outlives its name while others need it"
call "alive kept_alive_by" -X DELETE "$G/buffers/$buffer"
call "code alive" "$G/buffers/$buffer"
call "values" "$G/views/$view/values?limit=3"

step "a cascade takes a view and all that was made from it; the buffer goes with them"
call "deleted freed_count freed_nbytes" -X DELETE "$G/views/$view?if_held=cascade"
call "code alive" "$G/buffers/$buffer"

step "the packed copy is untouched"
call "count values" "$G/columns/$inner/values?limit=5"
