#!/usr/bin/env bash
# What a sitting on a GPU measures, in pieces that can be run one by one.
#   run.sh parity FOLDER     every case of the gates
#   run.sh rows FOLDER       one layer, the whole model, memory, beside flashslice
#   run.sh make FOLDER       data make on the GPU, RUNS times: how long, whether all bytes agree
# ONLY chooses rows, as `slipstream bench kernels --only` does. PYTHON is python3 unless given.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
export PYTHONPATH=$here/..${PYTHONPATH:+:$PYTHONPATH}
slipstream() { "$python" -m slipstream "$@"; }

seconds_of() { # command
    local start
    start=$(date +%s%N)
    "$@" >/dev/null
    echo "$((($(date +%s%N) - start) / 10000000))" | sed 's/\(..\)$/.\1/'
}

make_flow() { # store
    slipstream data make potential-flow-surface --samples 64 --points 4096 --device "${DEVICE:-cuda}" --out "$1"
}

make_again_and_again() { # folder for the stores
    echo "import torch: $(seconds_of "$python" -c 'import torch') s"
    echo "slipstream data make --help: $(seconds_of slipstream data make --help) s"
    for run in $(seq "${RUNS:-4}"); do
        echo "data make, run $run: $(seconds_of make_flow "$1/$run") s"
        diff -rq "$1/1" "$1/$run" || echo "runs 1 and $run differ"
    done
}

folder=${2:-out}
case ${1:-} in
parity) slipstream bench parity --out "$folder/parity.jsonl" ${ONLY:+--only "$ONLY"} ;;
rows)
    for command in kernels model memory; do
        slipstream bench "$command" --peer --out "$folder/$command.jsonl" ${ONLY:+--only "$ONLY"}
    done
    ;;
make)
    stores=$(mktemp -d)
    trap 'rm -rf "$stores"' EXIT
    mkdir -p "$folder"
    make_again_and_again "$stores" | tee "$folder/make.txt"
    ;;
*)
    sed -n '2,6p' "$0"
    exit 2
    ;;
esac
