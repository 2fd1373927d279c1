#!/usr/bin/env bash
# in-root.sh ROOT COMMAND...: runs COMMAND in a root made by make-root.sh, with this machine's files at their own paths.
#
# /usr and /etc come from ROOT, everything else (/home, /tmp, /var, scratch file systems, devices) from the machine. It
# needs only util-linux: a mount namespace (within a user namespace, unless the caller is root) and pivot_root. The last
# step is an exec, so signals and exit codes are those of COMMAND. COMMAND runs under the caller's user id.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin  # pivot_root

fail() { echo "dev: $*" >&2 && exit 1; }

if [[ $1 != --inside ]]; then
  root=$(readlink -f "$1")
  shift
  [[ $PWD/ != /usr/* && $PWD/ != /etc/* ]] || fail "cannot run below /usr or /etc (here: $PWD); move the checkout to /home"
  me=$(readlink -f "${BASH_SOURCE[0]}")
  if unshare --mount true 2>/dev/null; then
    exec unshare --mount bash "$me" --inside "" "$root" "$@"
  elif unshare --user --map-root-user --mount true 2>/dev/null; then
    exec unshare --user --map-root-user --mount bash "$me" --inside "$(id -u):$(id -g)" "$root" "$@"
  fi
  fail "no namespaces: ask the administrator for 'sysctl kernel.unprivileged_userns_clone=1' (in a container: for" \
       "--privileged), or install the packages of scripts/make-root.sh on this machine"
fi

user=$2 root=$3 folder=$PWD
shift 3

# An empty file system as the new /, mounted on a folder that is not needed otherwise.
new=$root/mnt
mount -t tmpfs -o mode=755 keelson "$new"
bind() {
  if [[ -d $1 ]]; then mkdir -p "$2"; else [[ -e $2 ]] || : >"$2"; fi
  mount --rbind "$1" "$2"
}
for path in "$root"/{usr,bin,sbin,lib*,etc}; do
  if [[ -L $path ]]; then cp -P "$path" "$new/"; elif [[ -d $path ]]; then bind "$path" "$new/${path##*/}"; fi
done
for path in /*; do
  case $path in /bin | /boot | /etc | /lib* | /lost+found | /sbin | /usr) continue ;; esac
  if [[ -L $path ]]; then
    cp -P "$path" "$new/"
  elif [[ -d $path ]]; then
    bind "$path" "$new$path"
  fi
done
# Users, hosts and time zone come from the machine. make-root.sh made these files, empty, for this purpose.
for file in passwd group hosts resolv.conf hostname localtime; do
  if [[ -e /etc/$file ]]; then bind "$(readlink -f "/etc/$file")" "$new/etc/$file"; fi
done

mkdir "$new/.old"
pivot_root "$new" "$new/.old"
umount -l /.old
rmdir /.old

# Back to the caller's user id, if the mounts needed root. (Not possible from a chroot, hence pivot_root.)
back=()
if [[ -n $user ]]; then
  back=(unshare --user --map-user="${user%:*}" --map-group="${user#*:}")
fi
# Debian's Open MPI comes with UCX and libfabric. On a machine without a fast network they only cost time at the start
# of a program: 0.4 s for UCX' hooks, 1.2 s for two transports that are never used.
: "${UCX_MEM_EVENTS=n}" "${OMPI_MCA_btl=^uct,ofi}"
export UCX_MEM_EVENTS OMPI_MCA_btl
clean=(-u LD_LIBRARY_PATH -u LD_PRELOAD -u LIBRARY_PATH -u CPATH -u PYTHONPATH -u PYTHONHOME -u VIRTUAL_ENV
  -u CC -u CXX -u CMAKE_PREFIX_PATH -u PKG_CONFIG_PATH -u OPAL_PREFIX)
exec "${back[@]}" env -C "$folder" "${clean[@]}" LC_ALL=C.UTF-8 \
  PATH="${KEELSON_PATH:+$KEELSON_PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
