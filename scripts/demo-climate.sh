#!/usr/bin/env bash
# Called by `./dev demo climate` with the built programs in PATH, in the folder for the demo's files (demo-climate/ in
# the current folder; KEELSON_DEMO overrides): makes weather with true masks, trains a small Tiramisu on two ranks,
# compares it with the heuristic labels on other weather, draws maps, and fails if the network has not learned.
set -euo pipefail

folder=${KEELSON_DEMO:-demo-climate}
ranks=2
least=0.85   # mean intersection over union that must be reached
margin=0.2   # by which the network must exceed the heuristics

# shellcheck source=scripts/demo-common.sh
. "$(dirname "$0")/demo-common.sh"

mkdir -p "$folder"
say "1/4  Weather with cyclones and rivers, 96 x 144 points (kept in $folder/data)"
"${mpiexec[@]}" -n "$ranks" keelson-climate generate --out "$folder/data" --height 96 --width 144 --train 300 --validation 24 --test 48 \
  --cyclones 5 --rivers 5 --seed 1

say "2/4  Training a small Tiramisu on $ranks ranks"
"${mpiexec[@]}" -n "$ranks" keelson-climate train --recipe demo --data "$folder/data" --out "$folder/run" --overwrite "$@"

say "3/4  Weather that it has never seen, beside heuristic labels"
status=0
"${mpiexec[@]}" -n "$ranks" keelson-climate evaluate --checkpoint "$folder/run" --data "$folder/data" --heuristics \
  --require "$least" --require-margin "$margin" || status=$?

say "4/4  Maps of fields with truth, heuristics and prediction outlined"
keelson-climate plot --checkpoint "$folder/run" --data "$folder/data/test" --out "$folder/maps.html"
[[ $status != 0 ]] || echo "Learned: a mean intersection over union of at least $least, and $margin more than the heuristics."
echo "The report, with curves and maps: $(realpath "$folder/run/report.html")"
exit "$status"
