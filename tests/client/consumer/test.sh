#!/usr/bin/env bash
# test.sh CMAKE BUILD SERVER WORK: installs the C++ library of BUILD into the folder WORK, where each of its headers compiles
# alone, and the project beside this file builds against it by find_package and by pkg-config, and asks SERVER; so do the
# examples of client/lib. A source tree that is configured for the library alone looks for none of what the server needs.
set -euo pipefail
cmake=$1 build=$2 server=$3 work=$4
here=$(dirname "$(readlink -f "$0")")
source=$here/../../..
# shellcheck source=tests/support/server_address.sh
. "$source/tests/support/server_address.sh"
server_pid=
finish() { [ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true; }
trap finish EXIT

fail() {
  echo "test.sh: $*" >&2
  exit 1
}

# cached NAME: the value of that variable in BUILD.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
compiler=$(cached CMAKE_CXX_COMPILER)
# configure SOURCE FOLDER FLAG...
configure() { "$cmake" -S "$1" -B "$2" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" "${@:3}" >"$2.log" 2>&1; }

rm -rf "$work"
mkdir -p "$work"
# A folder that libraries are not installed in by default, so that nothing but what is installed can say where they are.
"$cmake" --install "$build" --component client --prefix "$work/installed" >"$work/install.log"
mv "$work/installed" "$work/moved"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name attend-client.pc)")

headers=0
while IFS= read -r header; do
  echo "#include \"$header\"" | "$compiler" -std=c++20 -fsyntax-only -I "$work/moved/include" -xc++ - ||
    fail "$header does not compile alone"
  headers=$((headers + 1))
done < <(cd "$work/moved/include" && find attend -name '*.h')
[ "$headers" -ge 10 ] || fail "expected at least 10 headers, found $headers"

mkdir "$work/models"
cp -r "$source/tests/data/models/gpt2" "$work/models/gpt2"
sed -n '/R"(/,/)";/p' "$source/tests/support/word_tokenizer.h" | sed -e 's/.*R"(//' -e 's/)";$//' \
  >"$work/models/gpt2/tokenizer.json"
"$server" --listen=127.0.0.1:0 --admin-listen=none --metrics-listen=none --models="$work/models" >"$work/server.log" 2>&1 &
server_pid=$!
version=$(pkg-config --modversion attend-client)
configure "$here" "$work/by-cmake" -DCMAKE_PREFIX_PATH="$work/moved" -DATTEND_WANTED="$version" ||
  fail "find_package: $(cat "$work/by-cmake.log")"
"$cmake" --build "$work/by-cmake" >"$work/by-cmake.log" 2>&1 || fail "find_package: $(cat "$work/by-cmake.log")"
# shellcheck disable=SC2046 # a list of words
"$compiler" -std=c++20 "$here/main.cc" $(pkg-config --cflags --libs attend-client) -o "$work/by-pkg-config"

address=$(server_address "$work/server.log" "$server_pid")
for consumer in "$work/by-cmake/consumer" "$work/by-pkg-config"; do
  said=$("$consumer" "$address")
  [ "$said" = "5 512 " ] || fail "$consumer: expected an output of the shape 5 512, found $said"
done

# The examples, on the checkpoint gpt2, which the server loads beside listening.
configure "$source/client/lib/examples" "$work/examples" -DCMAKE_PREFIX_PATH="$work/moved" ||
  fail "examples: $(cat "$work/examples.log")"
"$cmake" --build "$work/examples" >"$work/examples.log" 2>&1 || fail "examples: $(cat "$work/examples.log")"
for ((tries = 0; tries < 3000; tries++)); do
  ! "$work/examples/decode_session" "the cat sat" gpt2 "$address" >"$work/ready.log" 2>&1 || break
  sleep 0.1
done
# example PATTERN NAME ARGUMENT...: runs it, and looks for a line in what it prints.
example() {
  local said
  said=$("$work/examples/$2" "${@:3}" gpt2 "$address") || fail "$2 failed"
  grep -qE "$1" <<<"$said" || fail "$2: expected a line $1, found $said"
}
mkdir "$work/texts"
echo "the cat sat" | tee "$work/texts/a.txt" >"$work/texts/b.txt"
echo "on the mat" >"$work/texts/c.txt"
example '^a.txt is nearest to b.txt \(cosine (1|0.99999[0-9]*|1.0[0-9]*)\)$' embed_folder "$work/texts"
example '^21 tokens in the session, [0-9]+ bytes' decode_session "the cat sat"
example '^wrote .*page.html' attention_page "the cat sat" "$work/page.html"
[ "$(grep -c '<tr><th>[^<]' "$work/page.html")" = 5 ] || fail "attention_page: expected a row for each of 5 tokens"
said=$("$work/examples/stream_sequence" 1500 "$address") || fail "stream_sequence failed"
grep -q '^1500 rows, computed in ' <<<"$said" || fail "stream_sequence: expected 1500 rows, found $said"

# Before 1.0 no minor version stands for another.
IFS=. read -r major minor _ <<<"$version"
other=$major.$((minor + 1))
! configure "$here" "$work/other" -DCMAKE_PREFIX_PATH="$work/moved" -DATTEND_WANTED="$other" ||
  fail "version $version of the library was taken for $other"
grep -q 'requested version' "$work/other.log" || fail "another version: $(cat "$work/other.log")"

configure "$source" "$work/client" -DATTEND_COMPONENTS=client || fail "client alone: $(cat "$work/client.log")"
looked_for=$(grep -iE '^(dnnl|icu|curl|systemd|openmp|cli11)[^:]*:' "$work/client/CMakeCache.txt" || true)
[ -z "$looked_for" ] || fail "configured for the client alone, CMake looked for: $looked_for"

! configure "$source" "$work/riscv" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=riscv64 || fail "RISC-V is not refused"
tr -s ' \n' ' ' <"$work/riscv.log" | grep -q 'found riscv64, 64 bits' ||
  fail "RISC-V is refused without its name: $(cat "$work/riscv.log")"
echo "Attend $version: $headers headers, find_package, pkg-config"
