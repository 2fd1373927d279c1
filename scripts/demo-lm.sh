#!/usr/bin/env bash
# Called by `./dev demo lm` with the built programs in PATH, in the folder for the demo's files (demo-lm/ in the current
# folder; KEELSON_DEMO overrides): writes text from a source whose entropy is known exactly, trains a language model on
# two ranks, compares its perplexity with the best possible one, writes text with it, and fails if the model has not
# learned.
set -euo pipefail

folder=${KEELSON_DEMO:-demo-lm}
ranks=2
# The perplexity that must be reached, as a multiple of the best possible one. Knowing only the previous word gives 1.16
# times.
most=1.08

# shellcheck source=scripts/demo-common.sh
. "$(dirname "$0")/demo-common.sh"

mkdir -p "$folder"
say "1/4  Text with a known entropy rate (kept in $folder/data)"
keelson-lm corpus --out "$folder/data" --words 3000000 --validation-words 40000 --test-words 40000 --vocab-size 300 --branching 8 --topics 4 --seed 1

say "2/4  Training an LSTM on $ranks ranks"
"${mpiexec[@]}" -n "$ranks" keelson-lm train --recipe demo --data "$folder/data" --out "$folder/run" --overwrite "$@"

say "3/4  Perplexity on text it has never seen"
status=0
keelson-lm evaluate --checkpoint "$folder/run" --data "$folder/data" --require-of-best "$most" || status=$?

say "4/4  What it writes"
keelson-lm sample --checkpoint "$folder/run" --tokens 120 --seed 1
echo
[[ $status != 0 ]] || echo "Learned: at most $most times the best perplexity that is possible."
echo "The report, with curves: $(realpath "$folder/run/report.html")"
exit "$status"
