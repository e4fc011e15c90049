# SPDX-License-Identifier: Apache-2.0
# bash completion for gmvd. Options and their choices are read from `gmvd --help`, so that it cannot fall behind.

_gmvd()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} help choices
    COMPREPLY=()
    help=$("${COMP_WORDS[0]}" --help 2>/dev/null) || return 0
    # --option=value arrives as three words.
    [ "$current" != = ] || current=
    [ "$previous" != = ] || previous=${COMP_WORDS[COMP_CWORD - 2]}
    choices=$(printf '%s\n' "$help" | sed -nE "s/^ +$previous ([a-z]+(\|[a-z]+)+)( .*)?\$/\1/p" | tr '|' ' ')
    if [ -n "$choices" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
    elif [[ $previous == --* ]] && printf '%s\n' "$help" | grep -qE -- "^ +$previous (FILE|PATH)"; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [[ $previous == --* ]] && printf '%s\n' "$help" | grep -qE -- "^ +$previous [A-Z]+"; then
        :
    else
        choices=$(printf '%s\n' "$help" | sed -nE 's/^ +(--[a-z-]+)/\1\n/p' | grep -oE '^--[a-z-]+')
        [ "$COMP_CWORD" -ne 1 ] || choices="$choices healthcheck"
        mapfile -t COMPREPLY < <(compgen -W "$choices --help" -- "$current")
    fi
}

complete -o filenames -F _gmvd gmvd
