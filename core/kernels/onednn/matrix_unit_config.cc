#include "core/kernels/onednn/matrix_unit_config.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>

namespace attention {
namespace {

/// The configuration of this thread's unit, and the one that was read last. GCC believes that the
/// instructions use the first eight bytes alone; behind a fence it assumes nothing of these.
thread_local MatrixUnitConfig current_config;
thread_local MatrixUnitConfig read_config;

void Fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

bool operator==(const MatrixUnitConfig& a, const MatrixUnitConfig& b) {
  return std::ranges::equal(a.bytes, b.bytes);
}

void SetRegister(int index, int64_t rows, int64_t row_bytes, MatrixUnitConfig& config) {
  config.bytes[0] = 1;  // the palette with eight registers
  config.bytes[16 + 2 * index] = static_cast<uint8_t>(row_bytes);
  config.bytes[48 + index] = static_cast<uint8_t>(rows);
}

__attribute__((target("amx-tile"))) void ConfigureMatrixUnit(const MatrixUnitConfig& config) {
  if (current_config == config) {
    return;
  }
  current_config = config;
  Fence();
  _tile_loadconfig(&current_config);
}

__attribute__((target("amx-tile"))) MatrixUnitConfig ReadMatrixUnitConfig() {
  _tile_storeconfig(&read_config);
  Fence();
  return read_config;
}

__attribute__((target("amx-tile"))) void ReleaseMatrixUnit() {
  if (current_config != MatrixUnitConfig{}) {
    _tile_release();
    current_config = MatrixUnitConfig{};
  }
}

}  // namespace attention
