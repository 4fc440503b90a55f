#!/usr/bin/env bash
# package_chart.sh FOLDER: packs the Helm chart into FOLDER as `helm package` does: attend-VERSION.tgz with the folder attend, and
# files where the repository has links. SOURCE_DATE_EPOCH is the time of the files.
set -euo pipefail
target=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/helm"
version=$(sed -n 's/^version: //p' attend/Chart.yaml)
find attend -not -type d -print0 | LC_ALL=C sort -z |
  tar --null --files-from=- --dereference --format=ustar --owner=0 --group=0 --numeric-owner --mode=0644 \
    --mtime="@${SOURCE_DATE_EPOCH:-$(date +%s)}" --create | gzip -n >"$target/attend-$version.tgz"
