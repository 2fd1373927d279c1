# Sourced by .ci/run and check-all.sh: stages, which all run even if some fail, and at the end a table of them and of
# the stages that were left out.

failed=() names=() took=() left_out=()
began=$SECONDS

# stage COMMAND...
stage() {
  local started=$SECONDS
  echo "=== $*"
  "$@" || failed+=("$*")
  names+=("$*") took+=($((SECONDS - started)))
  echo "=== $* took ${took[-1]} s"
}

# leave_out WHAT...: `conclude` lists it as left out.
leave_out() { left_out+=("$*"); }

# conclude WHO: prints the tables; status 1 if a stage failed.
conclude() {
  local i
  echo "=== seconds of each stage"
  for i in "${!names[@]}"; do printf '%6d  %s\n' "${took[i]}" "${names[i]}"; done
  printf '%6d  in all\n' $((SECONDS - began))
  if [[ ${#left_out[@]} != 0 ]]; then
    echo "=== left out; ./dev check-all runs it:"
    printf '        %s\n' "${left_out[@]}"
  fi
  if [[ ${#failed[@]} != 0 ]]; then
    printf "$1: failed: %s\n" "${failed[@]}"
    return 1
  fi
  echo "$1: all passed"
}
