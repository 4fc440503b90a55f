#!/usr/bin/env bash
# install.sh PREFIX: builds a static, inference-only oneDNN with the ukernel API and installs it into PREFIX.
#
# For systems whose own oneDNN is older than 3.7 (Debian 12, Ubuntu 24.04). The source is Debian 13's source package: apt
# fetches it from this machine's own Debian mirror (ATTEND_DEBIAN_MIRROR=URL names another) and checks its signature.
# PREFIX appears only when complete. An interrupted run continues where it stopped: work is kept in PREFIX.build until then.
# Needs no root, but: apt cmake g++ ninja patch tar xz and Debian's archive keyring. ./dev setup installs them and runs this.
set -euo pipefail

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

# shellcheck source=core/kernels/onednn/debian_13.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian_13.sh"

# Upstream compiles the sources of switched-off primitives all the same, half of the time: leave them out.
drop_unused_sources() {
  cat >"$work/unpack/drop_unused.cmake" <<'END'
set(DROPPED ${SOURCES})
list(FILTER DROPPED INCLUDE REGEX
  "/(rnn|lrn|prelu|shuffle)/|(conv|pool|resampling|normalization|inner_product|softmax|reduction|shuffle|lrn|sparse)[^/]*$|/(jit_uni|ref)_(eltwise|binary)[^/]*$")
list(FILTER DROPPED EXCLUDE REGEX "_list[.]|_injector[.]|convert|inner_product_utils|decompress")
list(REMOVE_ITEM SOURCES ${DROPPED})
END
  # shellcheck disable=SC2016 # CMake's own variable
  sed -i '/^set(OBJ_LIB /i include(${PROJECT_SOURCE_DIR}/drop_unused.cmake)' \
    "$work"/unpack/src/cpu/CMakeLists.txt "$work"/unpack/src/cpu/x64/CMakeLists.txt
}

# Leaves the patched source in $work/source.
fetch_source() {
  local patch
  rm -rf "$work/unpack"
  mkdir -p "$work/unpack"
  prepare_private_apt deb-src
  (cd "$work/apt" && private_apt source -q --download-only onednn)
  tar -xJf "$work"/apt/onednn_*.orig.tar.xz -C "$work/unpack" --strip-components=1
  tar -xJf "$work"/apt/onednn_*.debian.tar.xz -C "$work/unpack"
  # Debian's patches bring the last point release; those that swap bundled libraries for Debian's are of no use here.
  # shellcheck disable=SC2013 # a list of words
  for patch in $(grep -v '^system-' "$work/unpack/debian/patches/series"); do
    patch -d "$work/unpack" -p1 -s <"$work/unpack/debian/patches/$patch"
  done
  drop_unused_sources
  mv "$work/unpack" "$work/source"
}

# Most kernels are generated at run time, so the optimiser matters little. The gemm kernels serve only CPUs without AVX2:
# all others have ukernels.
configure() {
  cmake -S "$work/source" -B "$work/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE='-O2 -DNDEBUG' \
    -DCMAKE_INSTALL_LIBDIR=lib -DONEDNN_LIBRARY_TYPE=STATIC -DONEDNN_CPU_RUNTIME=SEQ -DONEDNN_GPU_RUNTIME=NONE \
    -DONEDNN_ENABLE_WORKLOAD=INFERENCE '-DONEDNN_ENABLE_PRIMITIVE=MATMUL;REORDER' -DONEDNN_EXPERIMENTAL_UKERNEL=ON \
    -DONEDNN_ENABLE_GEMM_KERNELS_ISA=SSE41 -DONEDNN_BUILD_TESTS=OFF -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_BUILD_GRAPH=OFF \
    -DONEDNN_VERBOSE=OFF -DONEDNN_ENABLE_JIT_PROFILING=OFF -DONEDNN_ENABLE_ITT_TASKS=OFF
}

[ $# = 1 ] || fail "usage: install.sh PREFIX"
prefix=$1
work=$prefix.build
mkdir -p "$(dirname "$prefix")"
exec 9>"$prefix.lock"
flock 9 # a second run waits here, then finds the first one's result
[ ! -e "$prefix" ] || exit 0
for tool in cmake c++ ninja patch xz; do
  command -v "$tool" >/dev/null || fail "$tool is missing"
done

mkdir -p "$work"
[ -e "$work/source" ] || fetch_source
configure
cmake --build "$work/cmake" --parallel "$(nproc)"
cmake --install "$work/cmake" --prefix "$work/installed"
mv -T "$work/installed" "$prefix"
rm -rf "$work"
