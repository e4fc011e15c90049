#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shell completions offer what `gmvd --help` of this build lists, in each shell that is here. Prints TAP.
set -u

build=$(CDPATH='' cd -- "${GMV_BUILDDIR:-.}" && pwd) || exit 1
cd "${GMV_SRCDIR:-.}" || exit 1
. tests/lint/tap.sh
PATH=$build:$PATH
export PATH

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-completion.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# completion_want SHELL LINE WORDS: what is offered after LINE must be just the words, in any order.
completion_want()
{
    got=$("completion_$1" "$2" | sort | tr '\n' ' ')
    want=$(printf '%s\n' $3 | sort | tr '\n' ' ')
    [ "$got" = "$want" ] || echo "$1: after '$2' it offers '$got', not '$want'"
}

completion_bash()
{
    bash -c '. contrib/completion/gmvd.bash
        read -ra COMP_WORDS <<<"$1"
        [[ $1 != *" " ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _gmvd && printf "%s\n" "${COMPREPLY[@]}"' bash "$1"
}

completion_fish()
{
    fish --no-config -c 'source contrib/completion/gmvd.fish; complete -C "$argv[1]"' "$1" | cut -f 1
}

options=$(gmvd --help | grep -oE '(^  |, )--[a-z-]+' | grep -oE -- '--[a-z-]+')
for shell in bash fish; do
    if ! command -v $shell >/dev/null 2>&1; then
        tap_skip "$shell offers options and their choices" "there is no $shell"
        continue
    fi
    {
        completion_want $shell 'gmvd --' "$options"
        completion_want $shell 'gmvd --log-' '--log-format --log-level'
        completion_want $shell 'gmvd --backend ' 'auto cuda host'
        completion_want $shell 'gmvd --listen 127.0.0.1:0 --on-device-lost s' 'stay'
        completion_want $shell 'gmvd h' 'healthcheck'
    } >"$work/out"
    tap_check "$shell offers options and their choices" <"$work/out"
done

if command -v zsh >/dev/null 2>&1; then
    zsh -n contrib/completion/_gmvd >"$work/out" 2>&1
    tap_check 'the completion for zsh can be read' <"$work/out"
else
    tap_skip 'the completion for zsh can be read' 'there is no zsh'
fi
tap_done
