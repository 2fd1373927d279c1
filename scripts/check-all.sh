#!/usr/bin/env bash
# check-all.sh: runs every test in every configuration that a CPU can run. .ci/run has time for only a part of this.
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 1
. scripts/stages.sh

stage ./dev format --check
stage env KEELSON_LONG_TESTS=all KEELSON_FAULTS=100 ./dev test
stage ./dev lint
for preset in debug asan kernels kokkos-only device-paths; do stage ./dev test --preset "$preset"; done
stage ./dev fuzz
stage ./dev check-cuda
conclude check-all
