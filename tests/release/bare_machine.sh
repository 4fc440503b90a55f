#!/usr/bin/env bash
# bare_machine.sh [SUITE | COMMAND]...: what a newcomer does, before every release: `./dev demo` and `./dev test` from nothing on a
# bare Debian 13 and 12, each in a new tree without compiler, git or anything built. The last lines are a table of what
# passed. Takes an hour or two on two cores.
#
# SUITE is trixie or bookworm, both unless told. COMMAND is demo, test (both unless told) or busy: `./dev test` beside four busy
# loops and as on a processor that has AVX2 alone, in the tree that is there by then.
# What is committed is tried. Needs root, debootstrap and git; packages come from the mirror that this machine's apt uses
# (ATTEND_DEBIAN_MIRROR=URL names another). Logs are left in build/log/bare-SUITE-COMMAND.log, nothing else is.
set -euo pipefail
checkout=$(git -C "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" rev-parse --show-toplevel)
cd "$checkout"

fail() {
  echo "bare_machine.sh: $*" >&2
  exit 1
}

suites=() commands=()
for word; do
  case $word in
    trixie | bookworm) suites+=("$word") ;;
    demo | test | busy) commands+=("$word") ;;
    *) fail "expected trixie, bookworm, demo, test or busy, found $word" ;;
  esac
done
[ ${#suites[@]} -gt 0 ] || suites=(trixie bookworm)
[ ${#commands[@]} -gt 0 ] || commands=(demo test)
# shellcheck source=tests/release/tree.sh
. tests/release/tree.sh
table=$work/table logs=build/log
loops=()
# shellcheck disable=SC2317 # called by the trap
finish() {
  stop_loops
  end_tree
}
trap finish EXIT
trap 'exit 130' INT TERM

start_loops() {
  for _ in 1 2 3 4; do
    while :; do :; done &
    loops+=($!)
  done
}
stop_loops() {
  [ ${#loops[@]} = 0 ] || kill "${loops[@]}" 2>/dev/null || true
  loops=()
}

# try SUITE COMMAND: adds a line to the table; fails when the command does.
try() {
  local log=$logs/bare-$1-$2.log start result=passed status=0 command=(./dev "$2")
  if [ "$2" != busy ] || [ ! -e "$tree/project" ]; then
    make_tree "$1"
  fi
  if [ "$2" = busy ]; then
    command=(env ONEDNN_MAX_CPU_ISA=AVX2 ./dev test)
    start_loops
  fi
  echo "bare $1: ${command[*]}, into $log"
  start=$SECONDS
  run_in_tree "$log" "${command[@]}" || status=$?
  stop_loops
  [ "$status" = 0 ] || result="FAILED ($status), see $log"
  printf '%-10s%-8s%8s  %s\n' "$1" "$2" "$((SECONDS - start))" \
    "$result$(sed -n 's/^\([0-9]*% tests passed\)/, \1/p' "$log")" >>"$table"
  return "$status"
}

mkdir -p "$logs"
printf '%-10s%-8s%8s  %s\n' suite command seconds result >"$table"
status=0
for suite in "${suites[@]}"; do
  rm -rf --one-file-system "$tree"
  for command in "${commands[@]}"; do
    try "$suite" "$command" || status=1
  done
done
cat "$table"
exit $status
