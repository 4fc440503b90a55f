#!/usr/bin/env bash
# install.sh NPM FOLDER: brings the packages that package-lock.json names into FOLDER, when they are not there already.
set -euo pipefail
cd "$(dirname "$0")"
npm=$1 folder=$2
if cmp -s package-lock.json "$folder/package-lock.json" && [ -e "$folder/complete" ]; then
  exit 0
fi
mkdir -p "$folder"
rm -f "$folder/complete"
cp package.json package-lock.json "$folder"
cd "$folder"
"$npm" ci --ignore-scripts --no-audit --no-fund --prefer-offline
touch complete
