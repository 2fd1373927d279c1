#!/usr/bin/env bash
# Called by `./dev demo higgs` with the built programs in PATH, in the folder for the demo's files (demo-higgs/ in the
# current folder; KEELSON_DEMO overrides): makes particle collisions, trains a deep and a shallow network on what the
# detector measured, and a deep one on everything, on two ranks, and fails unless the deep one finds more than the
# shallow one.
set -euo pipefail

folder=${KEELSON_DEMO:-demo-higgs}
ranks=2
# The area under the curve that the network with all columns must reach.
least=0.79
measured=$(seq -s, 1 21)

# shellcheck source=scripts/demo-common.sh
. "$(dirname "$0")/demo-common.sh"

train() {
  "${mpiexec[@]}" -n "$ranks" keelson-tabular train --recipe higgs-demo --batch 128 --data "$folder/data" --judge auc --overwrite \
    --out "$folder/$1" "${@:2}"
}

area_of() {
  keelson-tabular evaluate --checkpoint "$folder/$1" --data "$folder/data" --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["scores"]["ROC AUC"]["ensemble"])'
}

mkdir -p "$folder"
say "1/4  Collisions: new Higgs bosons, and top quarks that look like them (in $folder/data)"
"${mpiexec[@]}" -n "$ranks" keelson-tabular generate --out "$folder/data" --train 50000 --validation 5000 --test 20000 --seed 1

say "2/4  A shallow and a deep network, on the 21 columns that the detector measured"
train shallow --layers 1 --units 400 --features "$measured" "$@"
train deep --features "$measured" "$@"

say "3/4  A deep network on all 28 columns, seven of which physicists have derived"
train run "$@"

say "4/4  On collisions that they have never seen"
status=0
keelson-tabular evaluate --checkpoint "$folder/run" --data "$folder/data" --importance 1 --report "$folder/scores.html" \
  --require "ROC AUC:$least" || status=$?
shallow=$(area_of shallow)
deep=$(area_of deep)
printf '\narea under the curve without derived columns: shallow %.4f, deep %.4f\n' "$shallow" "$deep"
python3 -c "import sys; sys.exit(not $deep > $shallow)" || { echo "the deep network is not better than the shallow one" && status=1; }
[[ $status != 0 ]] || echo "Learned: at least $least with all columns, and deep is better than shallow without the derived ones."
echo "The reports, with curves: $(realpath "$folder/run/report.html"), $(realpath "$folder/scores.html")"
exit "$status"
