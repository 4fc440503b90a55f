// Prefetching of rows that a thread needs soon.
#pragma once

#include <cstdint>

namespace attention {

/// Rows in memory that a thread needs soon. The thread prefetches a few cache lines of them at each
/// step of its work. Many prefetches at once would wait for each other, and so would the work.
struct UpcomingRows {
  struct Rows {
    const char* first = nullptr;
    int64_t stride_bytes = 0;
    int64_t rows = 0;
    int64_t row_bytes = 0;
  };

  void Add(const Rows& rows) { parts[count++] = rows; }

  Rows parts[4];
  int count = 0;
  // The next row to prefetch: row `row` of parts[part].
  int part = 0;
  int64_t row = 0;
};

namespace {  // each instruction set has its own copy

/// Prefetches the next rows of `upcoming`, if it is not null: about a kilobyte.
[[maybe_unused]] inline void PrefetchSome(UpcomingRows* upcoming) {
  constexpr int64_t kLineBytes = 64;
  constexpr int64_t kStepBytes = 1024;
  if (upcoming == nullptr) {
    return;
  }
  for (int64_t taken = 0; taken < kStepBytes && upcoming->part < upcoming->count;) {
    const UpcomingRows::Rows& rows = upcoming->parts[upcoming->part];
    const char* row = rows.first + upcoming->row * rows.stride_bytes;
    for (int64_t i = 0; i < rows.row_bytes; i += kLineBytes) {
      __builtin_prefetch(row + i, /*rw=*/0, /*locality=*/2);
    }
    taken += rows.row_bytes;
    if (++upcoming->row == rows.rows) {
      upcoming->row = 0;
      ++upcoming->part;
    }
  }
}

}  // namespace
}  // namespace attention
