# SPDX-License-Identifier: Apache-2.0
# fish completion for gmvd. Options and their choices are read from `gmvd --help`, so that it cannot fall behind.

function __gmvd_options
    gmvd --help 2>/dev/null | string match -rg '^ +(--[a-z-]+)'
    echo --help
end

function __gmvd_choices
    set -l previous (commandline -opc)[-1]
    gmvd --help 2>/dev/null | string match -rg -- "^ +$previous ([a-z]+(?:\|[a-z]+)+)" | string split '|'
end

function __gmvd_wants_choice
    test (count (__gmvd_choices)) -gt 0
end

function __gmvd_wants_value
    set -l previous (commandline -opc)[-1]
    gmvd --help 2>/dev/null | string match -rq -- "^ +$previous [A-Z]"
end

complete -c gmvd -f
complete -c gmvd -n __gmvd_wants_choice -a '(__gmvd_choices)'
complete -c gmvd -n __gmvd_wants_value -F
complete -c gmvd -n 'not __gmvd_wants_choice; and not __gmvd_wants_value' -a '(__gmvd_options)'
complete -c gmvd -n 'test (count (commandline -opc)) -eq 1' -a healthcheck -d 'ask a running daemon whether it is alive'
