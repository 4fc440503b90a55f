#!/usr/bin/env bash
# current_grpc.sh [PROGRAM]...: a current gRPC, before every release: a bare Debian sid, with gRPC and protobuf of experimental,
# builds what is committed and runs the tests of server and client. The last lines are a table of what passed. PROGRAM is one
# of those below; all but attacks unless told. attacks prints the table of tests/faults of that server.
#
# Needs root, debootstrap and git; packages come from the mirror that this machine's apt uses (ATTEND_DEBIAN_MIRROR=URL names
# another). The log is left in build/log/current_grpc.log, nothing else is.
set -euo pipefail
readonly PROGRAMS=(proto_tests server_tests open_inference_tests security_tests client_tests client_library_tests
  client_server_tests e2e_tests)
readonly BIN=build/release/bin

fail() {
  echo "current_grpc.sh: $*" >&2
  exit 1
}

# ------------------------------------------------------------------------------------------------------ in the tree

# Experimental is never installed from unless a package is named; sid's Abseil stays, which the rest of sid is built with.
choose_packages() {
  local mirror
  mirror=$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)
  echo "deb $mirror experimental main" >/etc/apt/sources.list.d/experimental.list
  printf '%s\n' 'Package: src:grpc src:protobuf src:utf8-range libupb* libutf8*' 'Pin: release a=experimental' \
    'Pin-Priority: 990' >/etc/apt/preferences.d/current-grpc
  # A mirror that stands still is good enough here. What it serves is signed all the same.
  echo 'Acquire::Check-Valid-Until "false";' >/etc/apt/apt.conf.d/mirror
  apt-get -q update
  apt_install libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  dpkg --compare-versions "$(version_of libgrpc++-dev)" ge 1.66 || fail "$mirror has no current gRPC in experimental"
}

apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@"; }
version_of() { dpkg-query -W -f '${Version}' "$1"; }

attacks() {
  apt_install nginx openssl python3 python3-grpcio python3-h2 python3-numpy
  ATTEND_SOURCE=$PWD ATTEND_SERVER_BINARY=$BIN/attend-server ATTEND_NGINX=/usr/sbin/nginx python3 tests/faults/attacks.py
}

# try PROGRAM: adds a line to the table; fails when the program does.
try() {
  local start=$SECONDS result=passed status=0 log=/tmp/$1.log
  case $1 in
    attacks) attacks ;;
    # A current CLI11 ends the wrapped lines of a help with a blank.
    *) "$BIN/$1" --gtest_brief=1 --gtest_filter=-UsageTest.NoLineOfAnyHelpIsOver100Columns ;;
  esac >"$log" 2>&1 || status=$?
  cat "$log"
  [ "$status" = 0 ] || result="FAILED ($status)"
  printf '%-22s%8s  %s\n' "$1" "$((SECONDS - start))" \
    "$result$(sed -n 's/^\[  PASSED  \] \([0-9]* tests\)\..*/, \1/p' "$log")" >>/tmp/table
  [ "$1" != attacks ] || cat "$log" >>/tmp/table
  return "$status"
}

inside() {
  local program targets=() status=0
  choose_packages
  for program; do
    targets+=("${program/attacks/attend-server}")
  done
  ./dev build release "${targets[@]}"
  printf 'gRPC %s, protobuf %s, g++ %s\n%-22s%8s  %s\n' "$(version_of libgrpc++-dev)" "$(version_of libprotobuf-dev)" \
    "$(g++ -dumpfullversion)" program seconds result >/tmp/table
  for program; do
    try "$program" || status=1
  done
  return "$status"
}

if [ "${1:-}" = --inside ]; then
  inside "${@:2}"
  exit
fi

# ---------------------------------------------------------------------------------------------------- on this machine

cd "$(git -C "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" rev-parse --show-toplevel)"
for word; do
  [[ " ${PROGRAMS[*]} attacks " == *" $word "* ]] || fail "expected one of ${PROGRAMS[*]} attacks, found $word"
done
[ $# -gt 0 ] || set -- "${PROGRAMS[@]}"

# shellcheck source=tests/release/tree.sh
. tests/release/tree.sh
log=build/log/current_grpc.log
trap end_tree EXIT
trap 'exit 130' INT TERM

mkdir -p "${log%/*}"
make_tree sid
echo "A current gRPC: $*, into $log"
status=0
run_in_tree "$log" tests/compat/current_grpc.sh --inside "$@" || status=$?
cat "$tree/tmp/table" 2>/dev/null || tail -n 30 "$log"
exit "$status"
