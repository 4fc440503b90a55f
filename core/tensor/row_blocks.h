// Work on the rows of a matrix, divided among threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/runtime/round_up.h"
#include "core/runtime/thread_pool.h"

namespace attention {

/// Calls run(first_row, count) for blocks of up to 16 rows that cover [0, rows), each as a task of
/// the pool.
template <typename Run>
void ForRowBlocks(int64_t rows, ThreadPool& pool, const Run& run) {
  constexpr int64_t kRows = 16;
  pool.ParallelFor(CeilDiv(rows, kRows), [&](int64_t block, int /*worker*/) {
    const int64_t first = block * kRows;
    run(first, std::min(kRows, rows - first));
  });
}

}  // namespace attention
