# Sourced by .ci/run and check-all.sh: stages that all run, whatever fails, and a table of them at the end.

failed=() names=() took=()
began=$SECONDS

# stage COMMAND...
stage() {
  local started=$SECONDS
  echo "=== $*"
  "$@" || failed+=("$*")
  names+=("$*") took+=($((SECONDS - started)))
  echo "=== $* took ${took[-1]} s"
}

# conclude WHO: prints the table; status 1 if a stage failed.
conclude() {
  local i
  echo "=== seconds of each stage"
  for i in "${!names[@]}"; do printf '%6d  %s\n' "${took[i]}" "${names[i]}"; done
  printf '%6d  in all\n' $((SECONDS - began))
  if [[ ${#failed[@]} != 0 ]]; then
    printf "$1: failed: %s\n" "${failed[@]}"
    return 1
  fi
  echo "$1: all passed"
}
