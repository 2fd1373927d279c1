# Sourced by make-root.sh: apt with folders of its own, so that the machine's package state is neither read nor changed.
# shellcheck shell=bash

# apt_archives: the addresses that this machine installs Debian from, the likeliest first.
apt_archives() {
  # shellcheck disable=SC2016  # apt's own variables
  apt-get indextargets --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' "Created-By: Packages" |
    awk '$1 == "main" && $2 !~ /-(security|updates|backports)$/ && !seen[$3]++ { print $3 }'
}

# apt_configure DIR URI: writes a configuration for suite sid and points apt at it.
apt_configure() {
  local dir=$1 uri=$2 arch options keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  arch=$(dpkg --print-architecture)
  mkdir -p "$dir"/{etc/empty,state/lists/partial,cache/archives/partial,log}
  : >"$dir/status"  # nothing is installed
  # The archive's whole keyring knows sid's keys; the one that the machine's suite is signed by may not.
  options="arch=$arch"
  if [[ -r $keyring ]]; then options+=" signed-by=$keyring"; fi
  echo "deb [$options] $uri sid main" >"$dir/etc/sources.list"
  {
    # How the machine reaches its archive (proxies, certificates) still holds; its hooks do not.
    apt-config dump Acquire
    cat <<EOF
Dir::State "$dir/state";
Dir::State::status "$dir/status";
Dir::Cache "$dir/cache";
Dir::Log "$dir/log";
Dir::Etc::main "$dir/etc/none";
Dir::Etc::parts "$dir/etc/empty";
Dir::Etc::sourcelist "$dir/etc/sources.list";
Dir::Etc::sourceparts "$dir/etc/empty";
Dir::Etc::preferences "$dir/etc/none";
Dir::Etc::preferencesparts "$dir/etc/empty";
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Get::Assume-Yes "true";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
EOF
  } >"$dir/apt.conf"
  export APT_CONFIG=$dir/apt.conf
}
