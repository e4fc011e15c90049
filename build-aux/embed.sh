#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# embed.sh NAME FILE: prints a C file that defines `const unsigned char NAME[]`, the bytes of FILE and
# a final NUL, and `const size_t NAME_nbytes`, their number without it. Same input, same output.
set -eu
name=$1
file=$2
printf '/* Made from %s by embed.sh. */\n' "${file##*/}"
printf '#include <stddef.h>\n\n'
printf 'extern const unsigned char %s[];\nextern const size_t %s_nbytes;\n\n' "$name" "$name"
printf 'const unsigned char %s[] = {\n' "$name"
od -An -v -tu1 "$file" | sed -e 's/^ *//' -e 's/  */,/g' -e 's/$/,/'
printf '0};\nconst size_t %s_nbytes = sizeof %s - 1;\n' "$name" "$name"
