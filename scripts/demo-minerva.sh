#!/usr/bin/env bash
# Called by `./dev demo minerva` with the built programs in PATH, in the folder for the demo's files (demo-minerva/ in the
# current folder; KEELSON_DEMO overrides): makes neutrino interactions in the MINERvA detector, trains the experiment's
# network to find their vertices, on two ranks, and fails unless the network is better than simple rules by 10 points.
set -euo pipefail

folder=${KEELSON_DEMO:-demo-minerva}
ranks=2
# Accuracy less that of the better rule.
margin=0.1

# shellcheck source=scripts/demo-common.sh
. "$(dirname "$0")/demo-common.sh"

mkdir -p "$folder"
say "1/3  Neutrinos meet a detector of planes and targets (events in $folder/data)"
"${mpiexec[@]}" -n "$ranks" keelson-minerva generate --out "$folder/data" --train 16000 --validation 1000 --test 4000 \
  --channels energy --seed 1

say "2/3  A network learns to find the vertices"
"${mpiexec[@]}" -n "$ranks" keelson-minerva train --recipe demo --data "$folder/data" --overwrite --out "$folder/run" "$@"

say "3/3  On events that it has never seen, beside simple rules"
status=0
keelson-minerva evaluate --checkpoint "$folder/run" --data "$folder/data" --report "$folder/scores.html" \
  --require-margin "$margin" || status=$?
[[ $status != 0 ]] || echo "Learned: more than $margin above the accuracy of the better rule."
echo "The reports, with event displays: $(realpath "$folder/run/report.html"), $(realpath "$folder/scores.html")"
exit "$status"
