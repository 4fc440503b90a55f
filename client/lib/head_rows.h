// The rows of the heads of one sequence, joined from blocks, or counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/lib/malformed_answer.h"

namespace attention {

/// The rows of the heads of one sequence, which a stream sends in blocks. `what` names them in
/// errors, all of which are INTERNAL.
template <typename T>
class HeadRows {
 public:
  struct Block {
    int64_t head = 0;
    int64_t first_row = 0;
    int64_t rows = 0;
    int64_t width = 0;  // elements of a row
    /// The elements of the rows; empty where they are only counted.
    std::span<const T> elements;
  };

  /// Adds a block. Heads come in order, each in row order, or interleaved block by block.
  absl::Status Add(const Block& block, const char* what) {
    if (block.width != width_.value_or(block.width)) {
      return Wrong("width of a block of ", what, *width_, block.width);
    }
    width_ = block.width;
    if (block.head < 0 || block.head > num_heads()) {
      return Wrong("head (at most) of a block of ", what, num_heads(), block.head);
    }
    if (block.head == num_heads()) {
      heads_.emplace_back();
    }
    Head& head = heads_[block.head];
    if (block.first_row != head.rows) {
      return Wrong("first row of a block of ", what, head.rows, block.first_row);
    }
    head.rows += block.rows;
    head.elements.insert(head.elements.end(), block.elements.begin(), block.elements.end());
    return absl::OkStatus();
  }

  int64_t num_heads() const { return std::ssize(heads_); }
  /// Returns the number of rows of the first head.
  int64_t num_rows() const { return heads_.empty() ? 0 : heads_[0].rows; }
  /// Returns the width of a row; `absent` if no block has come.
  int64_t WidthOr(int64_t absent) const { return width_.value_or(absent); }

  /// Returns an error unless each of `num_heads` heads has `rows`. REQUIRES: num_heads is at least
  /// num_heads().
  absl::Status CheckWhole(int64_t num_heads, int64_t rows, const char* what) const {
    for (int64_t h = 0; h < num_heads; ++h) {
      const int64_t received = h < std::ssize(heads_) ? heads_[h].rows : 0;
      if (received != rows) {
        return Wrong("rows of a head of ", what, rows, received);
      }
    }
    return absl::OkStatus();
  }

  /// Writes the rows of all heads to `target`. REQUIRES: they were not only counted, and CheckWhole
  /// was OK.
  void Join(T* target) const {
    for (const Head& head : heads_) {
      target = std::copy(head.elements.begin(), head.elements.end(), target);
    }
  }

 private:
  struct Head {
    int64_t rows = 0;
    std::vector<T> elements;
  };

  static absl::Status Wrong(const char* before, const char* after, int64_t expected,
                            int64_t found) {
    return MalformedAnswer(before, after, ": expected ", expected, ", found ", found);
  }

  std::vector<Head> heads_;
  std::optional<int64_t> width_;  // known from the first block on
};

}  // namespace attention
