# shellcheck shell=bash
# Functions to fetch packages of Debian 13 on an older Debian, beside the machine's own packages and without root. Sourced.
# REQUIRES: $work, a folder to keep lists in; fail TEXT, which ends the script.

# Prints the mirror from which apt gets this Debian's packages; nothing if there is none. apt itself reads its configuration, which
# has several formats.
debian_mirror() {
  local codename mirror=''
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-}") || codename=''
  if [ -n "$codename" ]; then
    # shellcheck disable=SC2016 # apt's own fields
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
      awk -v suite="$codename" '$2 == suite && $3 == "main" && $1 !~ /^cdrom/ { print $1; exit }')
  fi
  echo "$mirror"
}

# Runs apt-get with lists, sources and cache of its own: the machine's are not changed, and no root is needed.
# shellcheck disable=SC2154 # $work is the caller's
private_apt() {
  apt-get -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User="$(id -un)" \
    -o APT::Update::Post-Invoke::= -o APT::Update::Post-Invoke-Success::= "$@"
}

# prepare_private_apt TYPE: fetches the lists of Debian 13's packages of TYPE (deb or deb-src) into $work/apt, for private_apt.
prepare_private_apt() {
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror=${ATTEND_DEBIAN_MIRROR:-$(debian_mirror)}
  [ -n "$mirror" ] || fail "this machine's apt names no Debian mirror: set ATTEND_DEBIAN_MIRROR to one"
  [ -r "$keyring" ] || fail "$keyring is missing: install the package debian-archive-keyring"
  rm -rf "$work/apt"
  mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
  echo "$1 [signed-by=$keyring] $mirror trixie main" >"$work/apt/sources.list"
  echo "Fetching from Debian 13 at $mirror"
  private_apt update -q || fail "no package lists of trixie at $mirror: set ATTEND_DEBIAN_MIRROR to a Debian mirror that has them"
}
