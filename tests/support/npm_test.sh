#!/usr/bin/env bash
# npm_test.sh SOURCE WORK FILE...: runs node's own test runner on FILEs of the folder SOURCE, with the packages that its lock
# file names installed in WORK, so that the source tree stays clean. Packages are installed again when the lock file changes; without a
# FILE that is all.
set -euo pipefail
source=$1 work=$2
shift 2
mkdir -p "$work"
exec 9>"$work/.lock"
flock 9 # two tests may share WORK
for file in "$source"/*.mjs; do
  cmp -s "$file" "$work/${file##*/}" || cp "$file" "$work"
done
if ! cmp -s "$source/package-lock.json" "$work/complete"; then
  rm -f "$work/complete"
  cp "$source"/package.json "$source"/package-lock.json "$work"
  (cd "$work" && npm ci --no-audit --no-fund --prefer-offline)
  cp "$source/package-lock.json" "$work/complete"
fi
flock -u 9
cd "$work"
[ $# = 0 ] || exec node --test "$@"
