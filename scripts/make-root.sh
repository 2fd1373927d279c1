#!/usr/bin/env bash
# make-root.sh ROOT openmp|kernels: makes a folder that holds Debian sid with everything that Keelson is built with,
# from the archive that this machine's apt uses. It needs apt and util-linux, no privileges, and changes nothing else.
# make-root.sh --key openmp|kernels: prints what identifies the recipe.
#
# openmp   Kokkos 5 with OpenMP, oneDNN, LAPACK by OpenBLAS without threads
# kernels  Kokkos 4.5 with Kokkos Kernels, serial, as Trilinos builds them (their files clash with the other Kokkos)
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin  # chroot

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/apt.sh
. "$here/apt.sh"

base=(base-files base-passwd bash coreutils dash debianutils diffutils dpkg findutils grep gzip hostname libc-bin mawk mount
  ncurses-base netbase perl-base procps sed tar util-linux)
tools=(g++ gfortran cmake ninja-build pkgconf ccache git clang-format clang-tidy doxygen python3 python3-h5py python3-numpy)
python=(python3-dev nanobind-dev python3-nanobind python3-scikit-build-core python3-pip python3-pytest python3-mpi4py libdlpack-dev
  python3-onnx python3-onnxruntime python3-markdown)
libraries=(libopenmpi-dev openmpi-bin libhdf5-openmpi-dev libfftw3-dev libcli11-dev libfmt-dev nlohmann-json3-dev libgtest-dev
  libbenchmark-dev libparquet-dev libcpp-httplib-dev)
declare -A backends=(
  [openmp]="libkokkos-dev libdnnl-dev libopenblas-serial-dev"
  [kernels]="libtrilinos-kokkos-dev libtrilinos-kokkos-kernels-dev libopenblas-dev"
)
declare -A gigabytes=([openmp]=4 [kernels]=4)  # at the peak: the packages and what they unpack to

fail() { echo "dev: $*" >&2 && exit 1; }

disk_is_full() { (($(df --output=avail -k "$1" | tail -n 1) < 100000)); }

# fail_with WHAT: the last lines of the log say why, unless it is the disk.
fail_with() {
  if disk_is_full "$partial"; then fail "the disk that holds $partial is full; free ${gigabytes[$flavor]} GB, or set KEELSON_ROOT"; fi
  tail -n 5 "$log" >&2
  fail "$1; the whole log is $log"
}

# step TEXT: one line on a terminal is rewritten, elsewhere each is printed.
step() { if [[ -t 1 ]]; then printf '\r\033[K%s' "$*"; else printf '%s\n' "$*"; fi; }

# watch PID TEXT TOTAL COMMAND...: shows how far a background job is, as counted by COMMAND; returns its status.
watch() {
  local pid=$1 text=$2 total=$3 last=-1 count seconds=0
  shift 3
  while kill -0 "$pid" 2>/dev/null; do
    count=$("$@" | wc -l)
    if [[ $count != "$last" && (-t 1 || $((seconds % 15)) == 0) ]]; then step "$text: $count of $total packages"; fi
    last=$count
    sleep 1
    seconds=$((seconds + 1))
  done
  wait "$pid"
}

fetch_packages() {
  local uri uris found=""
  # shellcheck disable=SC2206  # a list of words
  local packages=("${base[@]}" "${tools[@]}" "${libraries[@]}" ${backends[$flavor]})
  if [[ $flavor == openmp ]]; then packages+=("${python[@]}"); fi
  step "Root for $flavor: reading the package lists of Debian sid"
  uris=$(apt_archives)
  [[ -n $uris ]] || fail "apt knows no Debian archive here (see apt-get indextargets); scripts/make-root.sh lists the packages to install"
  for uri in $uris; do
    apt_configure "$apt" "$uri"
    if apt-get -q update >>"$log" 2>&1 && apt-cache show cmake >/dev/null 2>>"$log"; then found=$uri && break; fi
    if disk_is_full "$partial"; then fail_with "apt-get update failed"; fi
  done
  [[ -n $found ]] || fail "no suite 'sid' at ${uris//$'\n'/, }: the archive cannot be reached, or is not Debian's; the log is $log"

  apt-get -qq --print-uris install "${packages[@]}" >"$apt/uris" 2>>"$log" || fail_with "Debian sid cannot be installed at the moment"
  total=$(wc -l <"$apt/uris")
  apt-get -q --download-only install "${packages[@]}" >>"$log" 2>&1 </dev/null &
  watch $! "Root for $flavor: downloading $(awk '{ s += $3 } END { printf "%d MB", s / 1e6 }' "$apt/uris")" "$total" \
    find "$apt/cache/archives" -maxdepth 1 -name '*.deb' || fail_with "the download failed"
}

# unpack DEB: its files, but for manuals; and the script that gives c++, mpirun, libblas.so.3 ... their names.
unpack() {
  local deb=$1 name
  name=$(basename "$deb" .deb)
  dpkg-deb --fsys-tarfile "$deb" | tar -x -p --no-same-owner --keep-directory-symlink -C "$partial" \
    --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
  case $name in
    cpp_* | gcc_* | g++_* | mawk_* | debianutils_* | openmpi-bin_* | libopenmpi-dev_* | libhdf5-openmpi-dev_* | \
      libblas3_* | liblapack3_* | libblas-dev_* | liblapack-dev_* | libopenblas*)
      dpkg-deb --ctrl-tarfile "$deb" | tar -x -O --wildcards './postinst*' >"$apt/scripts/${name%%_*}" ;;
  esac
  rm "$deb"
  : >"$apt/done/$name"
}

unpack_packages() {
  mkdir "$apt/done" "$apt/scripts"
  unpack "$(find "$apt/cache/archives" -name 'base-files_*.deb')" 2>>"$log" || fail_with "unpacking base-files failed"
  export -f unpack
  export apt partial
  find "$apt/cache/archives" -maxdepth 1 -name '*.deb' -print0 |
    xargs -0 -P "$(nproc)" -I{} bash -euo pipefail -c 'unpack {}' >>"$log" 2>&1 &
  watch $! "Root for $flavor: unpacking" "$total" find "$apt/done" -type f || fail_with "unpacking failed"
  chmod -R u+rwX,ug-s "$partial"
}

# in_partial COMMAND...: as root of nothing but the new folder.
in_partial() {
  local namespaces=(--mount)
  unshare --mount true 2>/dev/null || namespaces+=(--user --map-root-user)
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare "${namespaces[@]}" bash -euc 'mount --rbind /dev "$1/dev" && exec chroot "$@"' - "$partial" \
    env LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin "$@" >>"$log" 2>&1
}

configure() {
  local libraries file
  step "Root for $flavor: configuring"
  cd "$partial"
  [[ -e usr/bin/sh ]] || ln -s dash usr/bin/sh
  mkdir -p mnt
  rm -f etc/localtime
  touch etc/{passwd,group,hosts,resolv.conf,hostname,localtime}  # in-root.sh mounts the machine's over them
  echo "hosts: files dns" >etc/nsswitch.conf
  # Debian's Kokkos package refers to two empty archives that it does not ship; CMake wants them to exist.
  for libraries in usr/lib/*-linux-gnu; do
    for file in "$libraries"/libkokkos{algorithms,simd}.a; do
      [[ $flavor != openmp || -e $file ]] || printf '!<arch>\n' >"$file"
    done
  done
  in_partial ldconfig || fail_with "ldconfig failed"
  mkdir -p var/lib/dpkg/alternatives var/log
  chmod -R +x "$apt/scripts" && mv "$apt/scripts" scripts
  # shellcheck disable=SC2016  # expanded by the inner shell
  # HDF5 for MPI asks which MPI there is, so that comes first.
  in_partial bash -euc 'for script in /scripts/lib[!h]* /scripts/openmpi* /scripts/[!lo]* /scripts/libh*; do
    DPKG_MAINTSCRIPT_NAME=postinst DPKG_MAINTSCRIPT_PACKAGE=${script##*/} "$script" configure; done' || fail_with "configuring failed"
  rm -r scripts
  cd "$here"
}

check() {
  "$here/in-root.sh" "$partial" bash -euc 'c++ --version; mpicxx --version; mpirun --version; cmake --version; clang-tidy --version
    ccache --version; git --version; python3 -c "import numpy, h5py"' >>"$log" 2>&1 </dev/null || fail_with "the new root does not work"
}

key() { { echo "$1" && cat "$here/make-root.sh" "$here/apt.sh"; } | sha256sum | cut -c1-16; }

if [[ $1 == --key ]]; then
  key "$2"
  exit
fi

root=$1 flavor=$2
partial=$root.partial log=$root.log apt=$partial/.apt
for tool in apt-get dpkg-deb unshare xargs tar; do
  command -v "$tool" >/dev/null || fail "$tool not found: a private root can be made on Debian only; install the packages of scripts/make-root.sh instead"
done
mkdir -p "$partial" 2>/dev/null || fail "cannot create $partial; set KEELSON_ROOT to a folder that can be written"
rm -rf "$partial" && mkdir -p "$apt"
trap 'rm -rf "$partial"' EXIT
: >"$log"
available=$(df --output=avail -k "$partial" | tail -n 1)
if ((available < gigabytes[$flavor] * 1000000)); then
  fail "not enough disk: $partial needs ${gigabytes[$flavor]} GB, $((available / 1000000)) GB are free; set KEELSON_ROOT to another disk"
fi
if ! unshare --mount true 2>/dev/null && ! unshare --user --map-root-user --mount true 2>/dev/null; then
  "$here/in-root.sh" "$partial" true  # says why
fi

started=$SECONDS
fetch_packages
unpack_packages
configure
rm -rf "$apt"
check
key "$flavor" >"$partial/.keelson-key"
rm -rf "$root.old"
if [[ -e $root ]]; then mv "$root" "$root.old"; fi
mv "$partial" "$root"
rm -rf "$root.old"
step "Root for $flavor: ready in $((SECONDS - started)) s, $(du -sm "$root" | cut -f1) MB in $root"
echo
