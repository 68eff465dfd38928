#!/bin/sh
# Two sites of two hosts with MLCC's border switches between them: six processes on one machine,
# joined by shared memory. `make dci-demo` runs it.
#
#   docs/nic/sites.sh PROGRAM [MATRIX [TRANSPORT [RESULTS [DISTANCE]]]]
#
# The matrix is of four hosts, 0 and 1 in the east; RESULTS is a directory for what is measured, and
# sites are DISTANCE apart, one way (3ms).
set -eu
program=$1 matrix=${2:-docs/nic/sites.cm} transport=${3:-mlcc} distance=${5:-3ms}
switch() {
    exec "$program" dci --hosts docs/nic/sites.toml --wan-delay "$distance" --lan-rate 1Gbps \
        --wan-rate 1Gbps --ecn 100KB,400KB --mtu 1600 --site "$@"
}
host() {
    exec "$program" run "$matrix" --world nic --hosts docs/nic/sites.toml \
        --transport "$transport" --topo "two-sites:2,1,$distance" --set mtu=1024 --host "$@"
}
all=
trap 'kill $all 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# The device to a host or to the other switch: its number, the socket and the role.
device() { echo "net_memif$1,socket=headrace-$2,socket-abstract=yes,role=$3"; }
switch east --lan "$(device 0 e0 client)" --lan "$(device 1 e1 client)" \
    --wan "$(device 2 wan server)" & east=$! all=$!
switch west --lan "$(device 0 w0 client)" --lan "$(device 1 w1 client)" \
    --wan "$(device 2 wan client)" & west=$! all="$all $!"
hosts=
for name in e1 w0 w1; do host $name --quiet >/dev/null & hosts="$hosts $!" all="$all $!"; done
code=0
(host e0 ${4:+--out "$4"}) || code=$?
for process in $hosts; do wait "$process" || code=$?; done
kill -INT $east $west || true
for process in $east $west; do wait "$process" || code=$?; done
all=
exit $code
