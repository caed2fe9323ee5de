#!/bin/sh
# All that is measured on a GPU, in one go: sh benchmarks/gpu.sh FOLDER [PART ...]
# Parts: tests table limit scaling tanh, each with a limit of its own, twenty minutes in all at most. FOLDER gets a JSON a
# part, and log.txt.
# Needs Python 3.11 or later with torch (CUDA), numba, numpy, onnx and pytest, and build/aurora_checkpoints.npz for
# scaling (python benchmarks/checkpoints.py makes it, on any machine). PYTHON names the interpreter.
set -u
cd "$(dirname "$0")/.." || exit 1
out=${1:?"name a folder for the results: sh benchmarks/gpu.sh FOLDER [PART ...]"}
shift
python=${PYTHON:-python3}
parts=${*:-tests table limit scaling tanh}
mkdir -p "$out"
export PYTHONPATH="src:tests:benchmarks${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
failed=

part() { # NAME SECONDS COMMAND ...: a part that fails, or takes too long, does not keep the others
    name=$1 seconds=$2
    shift 2
    case " $parts " in *" $name "*) ;; *) return ;; esac
    echo "== $name: $*"
    begin=$(date +%s)
    timeout -k 5 "$seconds" "$@" || failed="$failed $name($?)"
    echo "== $name took $(($(date +%s) - begin)) s"
}

run() {
    part tests 260 "$python" -m pytest --noconftest -p no:cacheprovider -q tests/test_fused.py tests/test_engine.py \
        -k "gpu or cuda or device"
    part table 70 "$python" benchmarks/table.py --device cuda --sets aurora_short aurora_long --json "$out/table.json"
    part limit 100 "$python" benchmarks/limit.py --device cuda --json "$out/limit.json"
    part scaling 400 "$python" benchmarks/scaling.py --device cuda --limit 25 --json "$out/scaling.json"
    part tanh 290 "$python" benchmarks/tanh.py --device cuda --parts large --times 2 10 60 --scales 1 \
        --json "$out/tanh.json"
    echo "failed:${failed:- none}"
    test -z "$failed"
}

{ run 2>&1; echo $? >"$out/.rc"; } | tee "$out/log.txt"
rc=$(cat "$out/.rc") && rm "$out/.rc" && exit "$rc"
