#!/usr/bin/env bash
# spack.sh concretize|install: checks the Spack package of Keelson with the Spack in SPACK_ROOT.
#   concretize   audits the package and concretizes every environment of spack/environments, with this machine's compilers
#   install      builds this checkout with its default variants on what the machine has installed, and runs its tests
# Spack writes to build/spack; the user's configuration of Spack (repositories, mirrors) is used.
set -euo pipefail

top=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
[[ ${1-} == concretize || ${1-} == install ]] || { echo "usage: spack.sh concretize|install" >&2 && exit 2; }
folder=$top/build/spack/$1

# begin [EXTERNALS ARGUMENT]: a configuration scope with this repository of packages, and the machine's own packages.
begin() {
  mkdir -p "$folder/scope"
  "$top/scripts/spack-externals.py" "$@" >"$folder/scope/packages.yaml"
  printf 'repos:\n  keelson: %s\n' "$top/spack/spack_repo/keelson" >"$folder/scope/repos.yaml"
  cat >"$folder/scope/config.yaml" <<EOF
config:
  install_tree: {root: $folder/opt}
  build_stage: [$folder/stage]
  source_cache: $folder/cache
  misc_cache: $folder/misc
EOF
}
spack() { "$SPACK_ROOT/bin/spack" --color never -C "$folder/scope" "$@"; }

# Environments for other machines would not find those machines' packages here, so Spack plans to build all of them. For
# a processor of another family, Spack must be made to believe that it runs there.
concretize() {
  local environment name failed=0 started command
  begin --compilers
  echo "=== spack audit packages keelson"
  spack audit packages keelson
  for environment in "$top"/spack/environments/*/; do
    name=$(basename "$environment")
    rm -rf "$folder/$name" && mkdir -p "$folder/$name"
    cp "$environment/spack.yaml" "$folder/$name/"
    command=()
    if grep -q target=power9le "$environment/spack.yaml" && [[ $(uname -m) != ppc64le ]]; then
      command=(python "$top/scripts/spack-as.py" power9le)
    fi
    started=$SECONDS
    if spack "${command[@]}" -D "$folder/$name" concretize --fresh >"$folder/$name.log" 2>&1; then
      echo "=== $name: concretized in $((SECONDS - started)) s: $(grep -o -m 1 'keelson@.*' "$folder/$name.log")"
    else
      echo "=== $name: FAILED; the whole log is $folder/$name.log" && tail -n 12 "$folder/$name.log"
      failed=1
    fi
  done
  return $failed
}

install() {
  local started=$SECONDS
  begin
  echo "=== spack install keelson (log: $folder/install.log)"
  spack install --fresh "keelson dev_path=$top" >"$folder/install.log" 2>&1 || { tail -n 40 "$folder/install.log" && exit 1; }
  tail -n 2 "$folder/install.log"
  echo "=== installed in $((SECONDS - started)) s; spack test run keelson"
  spack test run keelson
  find "$top" -maxdepth 1 -type l -name 'build-*' -delete  # Spack's link to its folder
}

"$1"
