# Sourced by .ci/run: which files the latest commits change, and turns.

# The change is the newest commit and those of the 12 hours before it. If git has no older commit, all files count as
# changed.
commits=$(git rev-list --count HEAD)
changed_files=$(
  newest=$(git log -1 --format=%ct)
  base=$(git rev-list -1 --before=$((newest - 43200)) HEAD)
  if [[ -n $base ]]; then git diff --name-only "$base" HEAD; else git ls-files; fi
)

# touches REGEX: whether the path of a changed file matches.
touches() { grep -qE "$1" <<<"$changed_files"; }

# turn N: a number below N that changes from commit to commit, and is always the same for one commit.
turn() { echo $((commits % $1)); }

# folders_of_change FOLDER...: of these folders of tests/, those whose code or tests have changed, and in turn a third
# of the others; joined with commas.
folders_of_change() {
  local folder i=0 chosen=() code third=$((commits / 3 % 3))  # .ci/run itself uses three turns
  for folder in "$@"; do
    case $folder in
      app) code='apps/common' ;;
      comm) code='comm' ;;
      ops) code='(engine/ops|backends)' ;;
      graph) code='engine/(graph|layers)' ;;
      train) code='engine/(train|optim)' ;;
      lm | cosmoflow | climate | tabular | minerva | label) code="apps/$folder" ;;
      *) code="engine/$folder" ;;
    esac
    if touches "^($code|tests/$folder)/" || [[ $((i++ % 3)) == "$third" ]]; then chosen+=("$folder"); fi
  done
  (IFS=, && echo "${chosen[*]}")
}
