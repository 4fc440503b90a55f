#!/usr/bin/env bash
# npm_test.sh SOURCE WORK FILE...: runs node's own test runner on FILEs of the folder SOURCE, with the packages that its lock
# file names installed in WORK, so that the source tree stays clean. Packages are installed again when the lock file changes.
set -euo pipefail
source=$1 work=$2
shift 2
mkdir -p "$work"
exec 9>"$work/.lock"
flock 9 # two tests may share WORK
cp "$source"/*.mjs "$source"/package.json "$work"
if ! cmp -s "$source/package-lock.json" "$work/package-lock.json"; then
  rm -f "$work/package-lock.json"
  cp "$source/package-lock.json" "$work/package-lock.json.new"
  (cd "$work" && mv package-lock.json.new package-lock.json && npm ci --no-audit --no-fund) || {
    rm -f "$work/package-lock.json"
    exit 1
  }
fi
flock -u 9
cd "$work"
exec node --test "$@"
