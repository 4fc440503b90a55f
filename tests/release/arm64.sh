#!/usr/bin/env bash
# arm64.sh [PROGRAM]...: programs for ARM64 in emulation, before every release: a bare Debian 13 cross-builds what is committed with
# the preset arm64, and qemu-aarch64 runs it as a processor that has NEON and no more. The last lines are a table of what
# passed. PROGRAM is one of those below, all unless told; serve is a server that the client asks, with --verify.
#
# Needs root, debootstrap and git on an x86-64 machine; packages come from the mirror that this machine's apt uses
# (ATTEND_DEBIAN_MIRROR=URL names another). The log is left in build/log/arm64.log, nothing else is.
set -euo pipefail
readonly PROGRAMS=(core_base_tests core_tokenizer_tests core_tile_tests core_tests core_contract_tests core_hostile_tests attention_fuzz serve)
readonly BIN=build/arm64/bin

fail() {
  echo "arm64.sh: $*" >&2
  exit 1
}

# ------------------------------------------------------------------------------------------------------ in the tree

emulate() { qemu-aarch64 "$BIN/$1" "${@:2}"; }

serve() {
  local out=/tmp/server.log server address
  # shellcheck source=tests/support/server_address.sh
  . tests/support/server_address.sh
  qemu-aarch64 "$BIN/attend-server" --listen=127.0.0.1:0 --admin-listen=none --metrics-listen=none >"$out" 2>&1 &
  server=$!
  address=$(server_address "$out" "$server") || return 1
  emulate attend run "--server=$address" --model=demo --random=2x5x512 --seed=1 --stream --verify &&
    emulate attend run "--server=$address" --model=demo '--tokens=11,42,7,42,3;5,900,11' --weights --causal --verify &&
    kill -TERM "$server" && wait "$server"
}

# try PROGRAM: adds a line to the table; fails when the program does.
try() {
  local start=$SECONDS result=passed status=0 flags=() log=/tmp/$1.log
  case $1 in
    attention_fuzz) flags=(--seed=1 --cases=100) ;;
    core_*) flags=(--gtest_brief=1) ;;
  esac
  if [ "$1" = serve ]; then serve; else emulate "$1" "${flags[@]}"; fi >"$log" 2>&1 || status=$?
  cat "$log"
  [ "$status" = 0 ] || result="FAILED ($status)"
  printf '%-22s%8s  %s\n' "$1" "$((SECONDS - start))" \
    "$result$(sed -n 's/^\[  PASSED  \] \([0-9]* tests\)\..*/, \1/p' "$log")" >>/tmp/table
  return "$status"
}

inside() {
  local program targets=() status=0
  export QEMU_CPU=cortex-a72
  for program; do
    if [ "$program" = serve ]; then targets+=(attend-server attend); else targets+=("$program"); fi
  done
  ./dev build arm64 "${targets[@]}"
  DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends qemu-user
  printf '%-22s%8s  %s\n' program seconds result >/tmp/table
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
  [[ " ${PROGRAMS[*]} " == *" $word "* ]] || fail "expected one of ${PROGRAMS[*]}, found $word"
done
[ $# -gt 0 ] || set -- "${PROGRAMS[@]}"

# shellcheck source=tests/release/tree.sh
. tests/release/tree.sh
log=build/log/arm64.log
trap end_tree EXIT
trap 'exit 130' INT TERM

mkdir -p "${log%/*}"
make_tree trixie
echo "ARM64 in emulation: $*, into $log"
status=0
run_in_tree "$log" tests/release/arm64.sh --inside "$@" || status=$?
cat "$tree/tmp/table" 2>/dev/null || tail -n 30 "$log"
exit "$status"
