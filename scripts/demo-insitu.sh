#!/usr/bin/env bash
# demo-insitu.sh BUILD [PATH|ADDRESS]: called by `./dev demo insitu`, in the folder for the demo's files (demo-insitu/
# in the current folder; KEELSON_DEMO overrides). Installs the engine from BUILD, builds euler_kokkos with the patch
# insitu/euler_kokkos.patch, runs a blast wave on two ranks while a network learns to find its shocks, draws them, and
# fails if the network has not learned.
set -euo pipefail

build=$1 source=${2-}
folder=${KEELSON_DEMO:-demo-insitu}
top=$(cd "$(dirname "$0")/.." && pwd)
ranks=2
least=0.5  # intersection over union that must be reached; on idle cores it is 0.8 to 0.9

# shellcheck source=scripts/demo-common.sh
. "$top/scripts/demo-common.sh"

mkdir -p "$folder"
folder=$(realpath "$folder")
if [[ -z $source && ! -f $folder/euler_kokkos/CMakeLists.txt ]]; then
  echo "demo insitu: no source of euler_kokkos at hand. Pass a folder with it, or a git address:" >&2
  echo "  ./dev demo insitu https://github.com/pkestene/euler_kokkos" >&2
  exit 2
fi

say "1/4  euler_kokkos, a copy with $(grep -c '^[+-][^+-]' "$top/insitu/euler_kokkos.patch") changed lines ($folder/euler_kokkos)"
if [[ -n $source ]]; then
  if [[ -d $source && $folder/ == "$(realpath "$source")"/* || -d $source && $(realpath "$source")/ == "$folder/euler_kokkos"/* ]]; then
    echo "demo insitu: $source and the demo's copy $folder/euler_kokkos lie within each other; pass the source as it came, or set KEELSON_DEMO" >&2
    exit 2
  elif [[ ! -e $source && $source != *:* ]]; then
    echo "demo insitu: there is no $source; expected a folder with the source of euler_kokkos, or a git address" >&2
    exit 2
  fi
  rm -rf "$folder/euler_kokkos"
  if [[ -f $source/CMakeLists.txt ]]; then
    cp -r "$source" "$folder/euler_kokkos"
    rm -rf "$folder/euler_kokkos/.git"
  else
    git -c safe.directory='*' clone -q --depth 1 "$([[ -d $source ]] && echo "file://$(realpath "$source")" || echo "$source")" \
      "$folder/euler_kokkos"
  fi
  (cd "$folder/euler_kokkos" && GIT_CEILING_DIRECTORIES=$folder git -c safe.directory='*' apply "$top/insitu/euler_kokkos.patch") ||
    { echo "demo insitu: the patch is for euler_kokkos of 2026 (0.9.0), and $source is another" >&2 && exit 2; }
fi

say "2/4  Building it with the installed engine ($folder/keelson)"
cmake --install "$build" --prefix "$folder/keelson" >"$folder/build.log"
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
# Its headers rely on older compilers to include <cstdint>.
{ cmake -S "$folder/euler_kokkos" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$folder/keelson" \
  -DCMAKE_CXX_FLAGS="-include cstdint" -DEULER_KOKKOS_USE_MPI=ON -DEULER_KOKKOS_BACKEND=OpenMP "${launcher[@]}" &&
  cmake --build "$folder/build" --target euler_kokkos; } >>"$folder/build.log" 2>&1 ||
  { tail -n 20 "$folder/build.log" >&2 && echo "demo insitu: the build failed; the whole log is $folder/build.log" >&2 && exit 1; }

say "3/4  A blast wave on $ranks ranks, 192 x 192 cells: a network learns where its shocks are, from density and pressure"
rm -rf "$folder/run" && mkdir "$folder/run" && cd "$folder/run"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
"${mpiexec[@]}" -n "$ranks" "$folder/build/src/euler_kokkos" "$top/insitu/euler_kokkos.ini" >euler_kokkos.log 2>&1 ||
  { tail -n 20 euler_kokkos.log >&2 && exit 1; }

say "4/4  What it learned"
python3 "$top/scripts/insitu_report.py" --require "$least" "$folder/run"
