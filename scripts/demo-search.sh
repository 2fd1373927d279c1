#!/usr/bin/env bash
# Called by `./dev demo search` with the built programs in PATH, in the folder for the demo's files (demo-search/ in the
# current folder; KEELSON_DEMO overrides): makes small universes, evolves a network that finds their cosmological
# parameters, and searches at random with the same number of networks.
set -euo pipefail

folder=${KEELSON_DEMO:-demo-search}
ranks=2
search=(--data "$folder/data/train" --validation "$folder/data/validation" --test "$folder/data/test" --one-per-file
  --space "$folder/space.json" --networks 100 --epochs 9 --first-epochs 1 --eta 3 --seed 1 --overwrite)

# shellcheck source=scripts/demo-common.sh
. "$(dirname "$0")/demo-common.sh"

# loss_of FOLDER: the best validation loss of a search.
loss_of() { keelson-search best "$1" --list 1 2>/dev/null | sed -n 's/^[0-9]*: loss \([0-9.e+-]*\).*/\1/p'; }

mkdir -p "$folder"
cat >"$folder/space.json" <<'EOF'
{"stages": {"number": [1, 4], "filters": [4, 6, 8, 11, 16, 23, 32], "kernel_d": [1, 2, 3, 4, 5], "kernel_h": [1, 2, 3, 4, 5],
            "kernel_w": [1, 2, 3, 4, 5]},
 "dense": {"layers": [0, 2], "units": [16, 23, 32, 45, 64, 91, 128]},
 "training": {"batch": [8, 16, 32, 64]}}
EOF
say "1/3  Universes of 8^3 cells (kept in $folder/data)"
"${mpiexec[@]}" -n "$ranks" keelson-cosmoflow generate --out "$folder/data" --train 2000 --validation 500 --test 500 --size 8 --seed 1

say "2/3  Evolving a network on $ranks ranks"
"${mpiexec[@]}" -n "$ranks" keelson-search run "${search[@]}" --out "$folder/evolution" "$@"

say "3/3  As many networks at random"
"${mpiexec[@]}" -n "$ranks" keelson-search run "${search[@]}" --out "$folder/random" --method random "$@"

evolved=$(loss_of "$folder/evolution")
random=$(loss_of "$folder/random")
echo
echo "Validation loss of the best network: $evolved by evolution, $random at random."
echo "The pages: $(realpath "$folder/evolution/report.html"), $(realpath "$folder/random/report.html")"
awk -v a="$evolved" -v b="$random" 'BEGIN { exit !(a < b) }' || echo "Evolution was not better this time; other seeds: ./dev demo search --seed 2"
