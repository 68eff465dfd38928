#!/bin/sh
# Two hosts of the nic world on one machine: two processes, joined by shared memory. The exit code is
# that of a host that fails, and no host is left behind. `make nic-demo` runs it.
#
#   docs/nic/pair.sh PROGRAM
set -eu
program=$1
host() {
    exec "$program" run docs/nic/pair.cm --world nic --hosts docs/nic/hosts.toml --host "$@"
}
other=
trap '[ -z "$other" ] || kill "$other" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
host b --quiet >/dev/null & other=$!
(host a)
wait "$other"
other=
