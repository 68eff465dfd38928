#!/bin/sh
# Two sites of two hosts, 3 ms apart, and MLCC's border switches between them: six processes on one
# machine, joined by shared memory. `make dci-demo` runs it.
#
#   docs/nic/sites.sh PROGRAM [MATRIX [TRANSPORT [RESULTS]]]
#
# The matrix is of four hosts, 0 and 1 in the east; RESULTS is a directory for what is measured.
set -eu
program=$1 matrix=${2:-docs/nic/sites.cm} transport=${3:-mlcc}
switch() {
    exec "$program" dci --hosts docs/nic/sites.toml --wan-delay 3ms --lan-rate 1Gbps \
        --wan-rate 1Gbps --mtu 1600 --site "$@"
}
host() {
    exec "$program" run "$matrix" --world nic --hosts docs/nic/sites.toml \
        --transport "$transport" --topo two-sites:2,1 --set mtu=1024 --host "$@"
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
for name in e1 w0 w1; do host $name --quiet >/dev/null & all="$all $!"; done
code=0
(host e0 ${4:+--out "$4"}) || code=$?
kill -INT $east $west || true
wait
all=
exit $code
