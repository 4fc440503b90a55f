#!/usr/bin/env bash
# client_packages.sh python|node FOLDER [PROGRAM]: builds the package of a client library into FOLDER, in a copy of its sources: a wheel
# (needs pip, setuptools, wheel and protoc), or npm's tarball (npm fetches what package-lock.json names). PROGRAM is the python3 or
# the npm to use. The variable ATTEND_SOURCE_URL, where it is set, is the address of the sources in the package's metadata.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
language=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/client"
tar -C "$repository" --exclude=node_modules --exclude=dist --exclude=generated --exclude=build --exclude='*.egg-info' \
  -cf - "client/$language" proto LICENSE | tar -C "$copy" -xf -
cp "$copy/LICENSE" "$copy/client/$language/"
case $language in
  python)
    rm -f "$folder"/attend_client-*.whl
    PIP_ROOT_USER_ACTION=ignore "${3:-python3}" -m pip wheel --quiet --no-index --no-deps --no-build-isolation \
      --wheel-dir "$folder" "$copy/client/python"
    ;;
  node)
    npm=${3:-npm}
    rm -f "$folder"/attend-client-*.tgz
    cd "$copy/client/node"
    [ -z "${ATTEND_SOURCE_URL:-}" ] || "$npm" pkg set repository.type=git "repository.url=$ATTEND_SOURCE_URL" repository.directory=client/node
    "$npm" ci --no-audit --no-fund --prefer-offline --loglevel=error # its `prepare` builds
    "$npm" pack --ignore-scripts --loglevel=error --pack-destination "$folder"
    ;;
esac
