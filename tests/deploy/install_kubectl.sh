#!/usr/bin/env bash
# install_kubectl.sh FILE: Debian 13's kubectl, one static program that runs on any Debian, as FILE. Debian 12 has none that
# renders today's kustomizations. apt checks the package's signature (ATTEND_DEBIAN_MIRROR=URL names another mirror).
set -euo pipefail

fail() {
  echo "install_kubectl.sh: $*" >&2
  exit 1
}

# shellcheck source=core/kernels/onednn/debian_13.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../core/kernels/onednn/debian_13.sh"

[ $# = 1 ] || fail "usage: install_kubectl.sh FILE"
[ ! -e "$1" ] || exit 0
mkdir -p "$(dirname "$1")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prepare_private_apt deb
(cd "$work/apt" && private_apt download -q kubectl/trixie)
dpkg-deb --extract "$work"/apt/kubectl_*.deb "$work/package"
install "$work/package/usr/bin/kubectl" "$1.new"
mv "$1.new" "$1"
