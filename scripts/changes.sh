# Sourced by .ci/run: what the latest commits touch, and turns.

# The commits of the 12 hours before the newest one count as the change. Where git does not know an older commit, all
# files count as touched.
commits=$(git rev-list --count HEAD)
changed_files=$(
  newest=$(git log -1 --format=%ct)
  base=$(git rev-list -1 --before=$((newest - 43200)) HEAD)
  if [[ -n $base ]]; then git diff --name-only "$base" HEAD; else git ls-files; fi
)

# touches REGEX: whether a file that the change touches has such a path.
touches() { grep -qE "$1" <<<"$changed_files"; }

# turn N: a number below N that differs from commit to commit, and is always the same for one commit.
turn() { echo $((commits % $1)); }

# folders_of_change FOLDER...: those of these folders of tests/ whose code or tests the change touches, and each third of
# the others, by turns; joined with commas.
folders_of_change() {
  local folder i=0 chosen=() code third=$((commits / 3 % 3))  # .ci/run itself takes three turns
  for folder in "$@"; do
    case $folder in
      app) code='apps/common' ;;
      comm) code='comm' ;;
      ops) code='(engine/ops|backends)' ;;
      graph) code='engine/(graph|layers)' ;;
      train) code='engine/(train|optim)' ;;
      lm | cosmoflow | climate) code="apps/$folder" ;;
      *) code="engine/$folder" ;;
    esac
    if touches "^($code|tests/$folder)/" || [[ $((i++ % 3)) == "$third" ]]; then chosen+=("$folder"); fi
  done
  (IFS=, && echo "${chosen[*]}")
}
