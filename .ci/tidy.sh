#!/usr/bin/env bash
# tidy.sh CLANG_TIDY BUILD CACHE: clang-tidy on what is shipped, in the pieces that BUILD compiles. CACHE keeps an empty file for each piece
# that was clean, named by a hash of its preprocessed text, the checks and the program, so that only what changed is looked
# at again: `rm -r CACHE` for all.
#
# The compiler reports warnings, this script does not (-w). Tests are left out: they would take as long again.
set -euo pipefail
clang_tidy=$1 build=$2 cache=$3

# check FILE COMMAND: COMMAND compiles FILE.
check() {
  local clean
  # -C: a comment can switch a check off.
  clean=$cache/$({ eval "${2/ -o * -c / -E -C -P }" && "$clang_tidy" --version && cat .clang-tidy; } | sha256sum | cut -c1-40)
  [ ! -e "$clean" ] || return 0
  "$clang_tidy" -p "$build" --quiet --extra-arg=-w "$1" || return 1
  touch "$clean"
}

if [ $# = 5 ]; then
  check "$4" "$5"
  exit
fi
mkdir -p "$cache"
# Of each piece its "command" and then its "file", without JSON's own quoting.
sed -n 's/^ *"command": "\(.*\)",$/\1/p; s/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" | sed 's/\\\(.\)/\1/g' |
  while IFS= read -r command && IFS= read -r file; do
    case $file in */tests/* | *.pb.cc) ;; *) printf '%s\0%s\0' "$file" "$command" ;; esac
  done | xargs -r0 -n 2 -P "$(nproc)" "$0" "$clang_tidy" "$build" "$cache"
