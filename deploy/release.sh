#!/usr/bin/env bash
# release.sh BUILD DIST: makes what is published of the commit that is checked out, which BUILD holds, in the empty folder DIST:
# source archive, two Debian packages, wheel, npm package, Helm chart, image (where buildah is), bill of materials, checksums. Each
# is installed into a folder of its own and asked once (the chart is rendered), so that DIST is complete only when they work.
# ./dev release runs it. ATTEND_SOURCE_URL, the public address of the sources, goes into the metadata of the packages and the image.
#
# Needs cmake cpack dpkg-dev git g++ ninja node npm pkg-config; helm, or go with Debian's packages of what helm renders with; and
# Python with pip, setuptools, wheel, grpcio and numpy.
set -euo pipefail
build=$(readlink -f "$1")
mkdir -p "$2"
dist=$(readlink -f "$2")
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
readonly PYTHON=/usr/bin/python3 # Debian's, whose packages of numpy and grpcio it finds

work=$(mktemp -d "${TMPDIR:-/var/tmp}/attend-release.XXXXXX")
server=
container=
# shellcheck disable=SC2317 # called by the trap
finish() {
  local status=$?
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$container" ] || buildah rm "$container" >/dev/null || true
  [ "$status" = 0 ] || [ ! -s "$work/log" ] || tail -n 30 "$work/log" >&2
  rm -rf "$work"
}
trap finish EXIT

fail() {
  echo "release.sh: $*" >&2
  exit 1
}
say() { echo "release: $*"; }
# shellcheck source=tests/support/server_address.sh
. tests/support/server_address.sh
# Runs a command with its output in the log, whose end is shown if it fails.
quietly() { "$@" >"$work/log" 2>&1; }

version=$(sed -n 's/^project(attend VERSION \([^ ]*\) .*/\1/p' CMakeLists.txt)
[ -z "$(ls -A "$dist")" ] || fail "$dist is not empty"
# Shortened afterwards: a head in a pipe ends what still writes into it, and pipefail the script, before it says why.
changes=$(git status --short)
[ -z "$changes" ] || fail "there are changes that are not committed: $(head -n 5 <<<"$changes")"
grep -qE "^## \[${version//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
  fail "CHANGELOG.md has no dated section [$version]"
unreleased=$(sed -n '/^## \[Unreleased\]/,/^## \[[0-9]/{/^## /d;/./p}' CHANGELOG.md)
[ -z "$unreleased" ] || fail "CHANGELOG.md has changes that are not released yet: $(head -n 5 <<<"$unreleased")"
[ -s "tests/data/api/$version.txt" ] ||
  fail "tests/data/api has no $version.txt: python3 tests/proto/api_test.py protoc --write $version"
[ -s "tests/data/promises/$version.txt" ] ||
  fail "tests/data/promises has no $version.txt: python3 tests/e2e/promises_test.py build/release/bin --write $version"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# ------------------------------------------------------------------------------------------------------------- make

say "source archive"
git archive --format=tar.gz --prefix="attend-$version/" -o "$dist/attend-$version.tar.gz" HEAD
tar -xzf "$dist/attend-$version.tar.gz" -C "$work"
source=$work/attend-$version

say "Debian packages"
quietly cpack --config "$build/CPackConfig.cmake" -B "$work/cpack" \
  -D "CPACK_DEBIAN_PACKAGE_HOMEPAGE=${ATTEND_SOURCE_URL:-}"
cp "$work"/cpack/*.deb "$dist"

say "wheel"
quietly "$source/deploy/client_packages.sh" python "$dist" "$PYTHON"

say "npm package"
quietly "$source/deploy/client_packages.sh" node "$dist"

say "Helm chart"
"$source/deploy/package_chart.sh" "$dist"

if command -v buildah >/dev/null; then
  say "image"
  quietly buildah build --format docker --build-arg "BUILDPLATFORM=linux/$(dpkg --print-architecture)" \
    --build-arg "BUILDARCH=$(dpkg --print-architecture)" \
    --build-arg "SOURCE=${ATTEND_SOURCE_URL:-}" --tag "attend:$version" "$source"
  quietly buildah push "attend:$version" "docker-archive:$dist/attend-$version-image.tar:attend:$version"
else
  say "no image: buildah is not installed"
fi

say "bill of materials"
compiled_in=()
for package in nlohmann-json3-dev libcli11-dev libabsl-dev; do
  compiled_in+=("--compiled-in=$package=$(dpkg-query --show --showformat '${Version}' "$package")")
done
# oneDNN is compiled in where the distribution's is too old; else a Debian package depends on it.
dnnl=$(sed -n 's/^dnnl_DIR:PATH=//p' "$build/CMakeCache.txt")
case $dnnl in
  '' | /usr/lib/*) ;;
  *)
    dnnl=$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")$/\1/p' "$dnnl/dnnl-config-version.cmake")
    compiled_in+=("--compiled-in=oneDNN=$dnnl=pkg:github/uxlfoundation/oneDNN@v$dnnl")
    ;;
esac
debs=("$dist"/*.deb)
wheels=("$dist"/*.whl)
"$PYTHON" deploy/release_sbom.py "$version" "${debs[@]/#/--deb=}" "${wheels[@]/#/--wheel=}" \
  "--lock=$source/client/node/package-lock.json" "${compiled_in[@]}" >"$dist/attend-$version.cdx.json"

# -------------------------------------------------------------------------------------------------- install and ask

# As root, or as root of a namespace of its own. dpkg checks the packages' dependencies against what this machine has.
say "installing the Debian packages, and starting the server"
as_root=()
[ "$(id -u)" = 0 ] || as_root=(unshare --map-root-user)
mkdir -p "$work"/system/var/lib/dpkg/{info,updates,triggers}
cp /var/lib/dpkg/status "$work/system/var/lib/dpkg/"
quietly "${as_root[@]}" dpkg --root="$work/system" --force-script-chrootless --install "${debs[@]}"
"$work/system/usr/bin/attend-server" --listen=127.0.0.1:0 --admin-listen=none --metrics-listen=none >"$work/server.log" 2>&1 &
server=$!
address=$(server_address "$work/server.log" "$server")

# expect WHAT OUTPUT
expect() { [ "$2" = "1,5,512" ] || fail "$1: expected an output of the shape 1,5,512, found $2"; }

say "asking it by the command"
quietly "$work/system/usr/bin/attend" run --server="$address" --model=demo --random=1x5x512 --verify

say "asking it by the wheel"
quietly "$PYTHON" -m pip install --quiet --no-index --no-deps --target "$work/python" "${wheels[@]}"
expect Python "$(cd "$work" && PYTHONPATH=$work/python "$PYTHON" - "$address" <<'END'
import sys
import attend, numpy
client = attend.Client(sys.argv[1])
rows = numpy.ones((1, 5, 512), numpy.float32)
print(*client.attend(rows, model="demo").output.shape, sep=",")
END
)"

say "asking it by the npm package"
mkdir "$work/node"
(cd "$work/node" && quietly npm install --no-audit --no-fund --prefer-offline "$dist"/attend-client-*.tgz)
cat >"$work/node/ask.mjs" <<'END'
import { Client, Tensor } from "@attend/client";
const client = new Client({ server: process.argv[2] });
const rows = Tensor.fp32(new Float32Array(5 * 512).fill(1), [1, 5, 512]);
console.log((await client.attend({ model: "demo", hiddenStates: rows })).output.shape.join());
client.close();
END
expect Node "$(node "$work/node/ask.mjs" "$address")"

say "building the C++ library of the source archive, and asking by it"
quietly cmake -S "$source" -B "$work/library" -G Ninja -DCMAKE_BUILD_TYPE=Release -DATTEND_COMPONENTS=client
quietly cmake --build "$work/library"
quietly cmake --install "$work/library" --prefix "$work/installed"
quietly cmake -S "$source/tests/client/consumer" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$work/installed" \
  "-DATTEND_WANTED=$version"
quietly cmake --build "$work/consumer"
quietly "$work/consumer/consumer" "$address"

say "rendering the Helm chart"
tar -xzf "$dist/attend-$version.tgz" -C "$work"
render=(helm template --kube-version=1.36.0)
if ! command -v helm >/dev/null; then
  render=("$work/chart_template" template) # of tests/deploy
  quietly env GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE="$work/go" CGO_ENABLED=0 go build -o "${render[0]}" \
    "$source/tests/deploy/chart_template.go"
fi
quietly "${render[@]}" attend "$work/attend"
grep -qE "^ +image: \"?attend:$version\"?$" "$work/log" || fail "expected the image attend:$version in what the chart renders"

if [ -e "$dist/attend-$version-image.tar" ]; then
  say "asking the image"
  container=$(buildah from "docker-archive:$dist/attend-$version-image.tar")
  # shellcheck disable=SC2016 # the shell inside reads it
  quietly buildah run --user 65532:65532 "$container" -- sh -c \
    'attend-server --listen=127.0.0.1:8001 & attend health --wait=60s && attend run --model=demo --random=1x5x512 --verify
    status=$?; kill $!; exit $status'
fi

kill -TERM "$server"
wait "$server" || fail "the server ended with $?: $(cat "$work/server.log")"
server=
(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -sh "$dist"
