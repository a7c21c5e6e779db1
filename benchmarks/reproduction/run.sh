#!/usr/bin/env bash
# The reproduction, in pieces that can be run one by one; each goes on where it was interrupted.
#   run.sh data PROBLEM        make the store
#   run.sh main PROBLEM        all ten variants; three seeds of baseline and no-token-attention
#   run.sh pair PROBLEM        eight seeds of these two, with the errors of every sample of the test and
#                              of the validation split
#   run.sh others PROBLEM      five seeds of the paper's other variants, or of VARIANTS, the same errors
#   run.sh slices PROBLEM      G = 8, 128, 256 for the headline pair
#   run.sh depth PROBLEM       L = 2 to 32 for all variants, and for mlp-only with as many parameters
#                              as the baseline (examples/mlp_only_matched.py): is there a trend?
#   run.sh grid PROBLEM        attention and tying: 2 x 2 variants and LinearNO, as many seeds each
#   run.sh linearno PROBLEM    LinearNO with key_ratio 1 and 4 beside the baseline: error and time
#   run.sh longer PROBLEM      twice the steps for four variants: have the curves flattened?
#   run.sh once PROBLEM        slice-once alone; of poisson also with L = 2, 4, 16
#   run.sh eager PROBLEM       the baseline without kernels, G = 32 and 256: does it train alike?
#   run.sh pack FOLDER FILE    what a report needs of a study, as a .tgz
#   run.sh unpack FOLDER       the records of all runs, records.tar.xz, as files in FOLDER
#   run.sh archive FOLDER      records.tar.xz anew from FOLDER, without its predictions
#   run.sh report [FOLDER]     tables/ and figures/ from records.tar.xz, or from an unpacked FOLDER
# PROBLEM is poisson, potential-flow-surface, potential-flow-volume, stokes-surface or
# builtin-taylor-green; with SIZE=cpu poisson, stokes-surface or openfoam-airfoil (OPTIONS are further ones of its `data make`).
# SIZE=cpu takes the settings in cpu/, two runs of one thread at a time, and the CPU: pair and others
# of one problem take an hour of two cores. SIZE=paper is what it takes unless told.
# WORK is where stores and studies go, MINUTES ends a piece in time, PARALLEL is runs at a time,
# DEVICE is cuda unless given, MORE is added to every study. STEPS makes main and slices longer, in
# folders of their own; VARIANTS are those of main with the first seed, SEEDED those with two more
# (either may be empty); COUNTS, DEPTHS, RATIOS and SEEDS are those of the sweeps. PLACE is where
# report puts tables/ and figures/, those of 320 charges in few/: here unless given. PARTS=few makes
# these alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
size=${SIZE:-paper}
case $size in
paper) configs=$here parts=". few" work=${WORK:-out/reproduction} device=${DEVICE:-cuda} parallel=${PARALLEL:-5} threads=() depths=8,2,4,16,32 ;;
cpu) configs=$here/cpu parts=. work=${WORK:-out/cpu} device=${DEVICE:-cpu} parallel=${PARALLEL:-2} threads=(--threads 1) depths=4,2,8,16,32 ;;
*) echo "run.sh: SIZE must be paper or cpu, got $size" >&2 && exit 2 ;;
esac
records=$configs/records.tar.xz
python=${PYTHON:-python3}
export PYTHONPATH=$here/../..${PYTHONPATH:+:$PYTHONPATH}
pair=baseline,no-token-attention
others=untied,untied-no-token-attention,untied-ln,frozen-slice,slice-once,mlp-only,mlp-only-wide
all=baseline,no-token-attention,untied,untied-no-token-attention,untied-ln,frozen-slice,frozen-slice-no-token-attention,slice-once,mlp-only,mlp-only-wide
slipstream() { "$python" -m slipstream "$@"; }

make_data() {
    local problem=${1#builtin-} samples=${SAMPLES:-400} points=${POINTS:-16384} more=()
    case $size-$problem in
    cpu-poisson)
        samples=${SAMPLES:-1280} points=${POINTS:-1024}
        more=(--set "number=[1,3]" --set "width=[0.1,0.14]" --set "box=[0.35,0.65]")
        ;;
    cpu-taylor-green) samples=${SAMPLES:-56} points=${POINTS:-4096} ;; # a cube of 16 points
    cpu-openfoam-*) samples=${SAMPLES:-200} points= more=(--workers "${CORES:-2}") ;; # points are the mesh's
    cpu-*) samples=${SAMPLES:-400} points=${POINTS:-1024} more=(--workers "${CORES:-2}") ;;
    paper-poisson) samples=${SAMPLES:-2400} more=(--workers "${CORES:-8}" --set "number=[3,8]" --set "width=[0.05,0.2]") ;;
    paper-potential-flow-*) more=(--device "$device" --set inflow=varying --set "speed=[0.8,1.2]" --set panels=2000) ;;
    paper-stokes-*) samples=${SAMPLES:-1200} points=${POINTS:-4096} more=(--workers "${CORES:-8}" --set inflow=varying --set "speed=[0.8,1.2]") ;;
    paper-taylor-green) samples=${SAMPLES:-400} points=${POINTS:-32768} more=(--device "$device") ;;
    esac
    # shellcheck disable=SC2086
    slipstream data make "$problem" --out "$work/stores/$1" --samples "$samples" \
        ${points:+--points "$points"} "${more[@]}" ${OPTIONS:-}
}

study() { # folder, problem, further arguments
    local folder=$1 problem=$2
    shift 2
    local experiment=$problem
    case $problem in openfoam-*) experiment=own ;; esac # a store of anybody's, to the package
    # shellcheck disable=SC2086
    slipstream study "$experiment" --out "$work/$folder" --store "$work/stores/$problem" \
        --config "$configs/$problem.yaml" --device "$device" --parallel "$parallel" "${threads[@]}" \
        $(minutes_left) "$@" ${MORE:-}
}

minutes_left() { # of MINUTES, as an option; a piece with several studies gives each what is left
    [ -z "${MINUTES:-}" ] || echo "--minutes $((MINUTES > SECONDS / 60 ? MINUTES - SECONDS / 60 : 1))"
}

finish() { # folder, further arguments
    local folder=$work/$1
    shift
    slipstream evaluate "$folder" --repeats 6 --device "$device" "$@" >"$folder/evaluation.txt"
    slipstream audit "$folder" "$@" | tail -1
}

measure() { # folder
    finish "$1"
    slipstream evaluate "$work/$1" --split val --repeats 6 --device "$device" --no-calibrate \
        >"$work/$1/validation.txt"
}

piece() { # folder, problem, further arguments
    study "$@"
    finish "$1"
}

report_on() { # folder of records, part: where tables/ and figures/ are
    local place=${PLACE:-$configs}/$2 report=$work/report/$2 shown=()
    for figure in "$configs/$2"/figures/*.png; do shown+=("${figure##*/}"); done
    slipstream report "$1"/* --out "$report" --title "The reproduction"
    mkdir -p "$place/tables"
    cp "$report"/tables/*.md "$place/tables"
    "$python" "$here/figures.py" "$report/figures" "$place/figures" "${shown[@]}"
}

problem=${2:-poisson}
length=(${STEPS:+--set "steps=$STEPS"} ${STEPS:+--set "evaluate_every=$((STEPS / 20))"})
pieces=()
case ${1:-} in
data) make_data "$problem" ;;
main)
    folder=$problem-main${STEPS:+-$STEPS}
    seeded=${SEEDED-baseline,no-token-attention} once=${VARIANTS-$all}
    if [ -n "$seeded" ]; then
        study "$folder" "$problem" --variants "$seeded" --seeds 1,2 "${length[@]}" &
        pieces+=($!)
    fi
    [ -z "$once" ] || study "$folder" "$problem" --variants "$once" --seeds 0 "${length[@]}"
    for one in "${pieces[@]}"; do wait "$one"; done
    pieces=()
    finish "$folder"
    ;;
slices)
    piece "$problem-slices${STEPS:+-$STEPS}" "$problem" --variants "$pair" --seeds "${SEEDS:-0}" \
        --sweep "model.size.slices=${COUNTS:-8,128,256}" "${length[@]}"
    ;;
depth)
    matched=(--plugin "$here/../../examples/mlp_only_matched.py")
    study "$problem-depth" "$problem" --variants "$all,mlp-only-matched" --seeds "${SEEDS:-0,1,2}" \
        --sweep "model.size.layers=${DEPTHS:-$depths}" "${matched[@]}"
    finish "$problem-depth" "${matched[@]}"
    ;;
grid)
    piece "$problem-grid" "$problem" --seeds "${SEEDS:-0,1,2,3,4,5,6,7}" \
        --variants "$pair,untied,untied-no-token-attention,untied-ln"
    ;;
linearno)
    piece "$problem-linearno" "$problem" --variants baseline,untied-ln --seeds "${SEEDS:-0,1,2,3,4}" \
        --sweep "model.size.key_ratio=${RATIOS:-1,4}"
    ;;
pair)
    study "$problem-pair" "$problem" --variants "$pair" --seeds "${SEEDS:-0,1,2,3,4,5,6,7}"
    measure "$problem-pair"
    ;;
others)
    study "$problem-others" "$problem" --variants "${VARIANTS:-$others}" --seeds "${SEEDS:-0,1,2,3,4}"
    measure "$problem-others"
    ;;
longer)
    piece "$problem-longer" "$problem" --seeds 0 --set steps=8000 --set evaluate_every=400 \
        --variants baseline,no-token-attention,slice-once,mlp-only
    ;;
eager)
    for g in 32 256; do
        piece "$problem-eager-g$g" "$problem" --variants baseline --seeds 0 \
            --set impl=reference --set "model.size.slices=$g" &
        pieces+=($!)
    done
    ;;
once)
    sweep=()
    [ "$problem" = poisson ] && sweep=(--sweep "model.size.layers=${DEPTHS:-8,2,4,16}")
    piece "$problem-once" "$problem" --seeds 0 --variants slice-once "${sweep[@]}"
    ;;
pack)
    rm -rf "$work/packed/$2"
    mkdir -p "$work/packed"
    "$python" "$here/pack.py" "$work/$2" "$work/packed/$2"
    tar -C "$work/packed" -czf "${3:?a file for the archive}" "$2"
    ;;
unpack) "$python" "$here/archive.py" unpack "$records" "${2:?a folder for the records}" ;;
archive) "$python" "$here/archive.py" pack "${2:?a folder of records}" "$records" ;;
report)
    folder=${2:-}
    if [ -z "$folder" ]; then
        folder=$(mktemp -d)
        trap 'rm -rf "$folder"' EXIT
        "$python" "$here/archive.py" unpack "$records" "$folder"
    fi
    for part in ${PARTS:-$parts}; do
        report_on "$folder/$part/records" "$part"
    done
    ;;
*)
    sed -n '2,31p' "$0"
    exit 2
    ;;
esac
for one in "${pieces[@]}"; do wait "$one"; done
