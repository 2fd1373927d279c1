#!/usr/bin/env bash
# Called by `./dev demo label` with the built programs in PATH, in the folder for the demo's files (demo-label/ in the
# current folder; KEELSON_DEMO overrides): makes X-ray diffraction images of water and ice, lets keelson-label ask for the
# labels that matter, which a script gives that knows them, and fails unless the networks are right about the rest.
set -euo pipefail

folder=${KEELSON_DEMO:-demo-label}
ranks=2
# Labels of 4000 images that may be asked for, and the part of the rest that must be right.
most=700
least=0.97
images=(--images "$folder/data/pool" --camera-length 30.5)

# shellcheck source=scripts/demo-common.sh
. "$(dirname "$0")/demo-common.sh"

# answer: writes the labels of the last batch, as the person would who knows them.
answer() {
  python3 - "$folder" <<'PYTHON'
import glob, json, sys
import h5py, numpy
folder = sys.argv[1]
truth = numpy.concatenate([h5py.File(f)["y"][:] for f in sorted(glob.glob(f"{folder}/data/pool/*.h5"))])
batch = [line for line in map(json.loads, open(f"{folder}/project/journal.jsonl")) if line["type"] == "batch"][-1]
with open(f"{folder}/answers.csv", "w") as csv:
    csv.write("id,label\n")
    csv.writelines(f"{i},{('water', 'ice')[truth[i]]}\n" for i in batch["images"] + batch["audit"])
PYTHON
}

mkdir -p "$folder"
say "1/3  Diffraction images of water and ice (in $folder/data)"
"${mpiexec[@]}" -n "$ranks" keelson-label generate --out "$folder/data" --size 64 --pool 4000 --test 0 --seed 1

say "2/3  A project: 60 labels, then 100 after each training, chosen by margin"
keelson-label start --project "$folder/project" --classes water,ice --overwrite "${images[@]}" "$@"
answer
keelson-label label --project "$folder/project" --csv "$folder/answers.csv" --annotator demo
for labels in $(seq 60 100 "$most"); do
  keelson-label train --project "$folder/project"
  if ((labels + 100 > most)); then break; fi
  keelson-label suggest --project "$folder/project"
  answer
  keelson-label label --project "$folder/project" --csv "$folder/answers.csv" --annotator demo
done
keelson-label report --project "$folder/project" --csv "$folder/labels.csv" --confidence 0

say "3/3  On the images that nobody has labelled"
status=0
python3 - "$folder" "$least" <<'PYTHON' || status=$?
import csv, glob, sys
import h5py, numpy
folder, least = sys.argv[1], float(sys.argv[2])
truth = numpy.concatenate([h5py.File(f)["y"][:] for f in sorted(glob.glob(f"{folder}/data/pool/*.h5"))])
rows = list(csv.DictReader(open(f"{folder}/labels.csv")))
rest = [r for r in rows if r["source"] == "model"]
right = sum(r["label"] == ("water", "ice")[truth[int(r["id"])]] for r in rest) / len(rest)
print(f"{len(rows) - len(rest)} labels of {len(rows)}; of the other {len(rest)} images {100 * right:.2f} % are right, expected {100 * least:g} %")
sys.exit(right < least)
PYTHON
[[ $status == 0 ]] && echo "Learned: the labels that were asked for were enough."
echo "Label yourself: keelson-label serve --project $(realpath "$folder/project"); the report: $(realpath "$folder/project/report.html")"
exit "$status"
