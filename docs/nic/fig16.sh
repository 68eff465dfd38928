#!/bin/sh
# Figure 16 of MLCC's paper, in real time: Hadoop's flows between two hosts a site, over border
# switches, with MLCC and with DCQCN. Beside each run stands the run of the same matrix in virtual
# time. `make fig16-nic` runs it.
#
#   docs/nic/fig16.sh PROGRAM RESULTS [DISTANCE [DURATION]]
set -eu
program=$1 results=$2 distance=${3:-10ms} duration=${4:-1s}
mkdir -p "$results"
trap 'exit 130' INT
trap 'exit 143' TERM HUP
for seed in 1 2 3; do
    matrix=$results/$seed.cm
    "$program" gen poisson-two-dc --hosts 4 --intra-cdf hadoop --inter-cdf hadoop \
        --intra-share 0.8 --load 0.3 --link-rate 1Gbps --duration "$duration" --seed $seed \
        -o "$matrix"
    for transport in mlcc dcqcn-hpcc; do
        run=$results/$transport-$seed
        rm -rf "$run" "$run-sim"
        docs/nic/sites.sh "$program" "$matrix" $transport "$run" "$distance" >/dev/null ||
            echo "seed $seed, $transport: not all hosts ended well (code $?)"
        "$program" run "$matrix" --topo "two-sites:2,1,$distance" --transport $transport \
            --set mtu=1024 --quiet --out "$run-sim" >/dev/null ||
            echo "seed $seed, $transport, in sim: code $?"
    done
done
for seed in 1 2 3; do
    echo "seed $seed: A MLCC, B DCQCN, C MLCC in sim, D DCQCN in sim"
    "$program" compare "$results/mlcc-$seed" "$results/dcqcn-hpcc-$seed" "$results/mlcc-$seed-sim" \
        "$results/dcqcn-hpcc-$seed-sim" >"$results/$seed.txt" || continue
    grep -E 'fct_|late' "$results/$seed.txt"
done
