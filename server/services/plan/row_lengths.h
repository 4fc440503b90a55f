// Where the rows of each sequence lie in a request's tensor.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Query rows of one request at most.
inline constexpr int64_t kMaxTokens = int64_t{1} << 20;

/// Sequences of one request at most, those without rows included: each takes memory and time, and a
/// tensor with a zero extent can name any number of them in a few bytes.
inline constexpr int64_t kMaxSequences = 4096;

/// Tables of weights, log-sum-exp and largest weights in one reply at most. It has one of each kind
/// that is asked for, and of each chosen layer, for each sequence.
inline constexpr int64_t kMaxScoreTables = 16384;

/// RESOURCE_EXHAUSTED for more than kMaxSequences; `path` names the field that has them.
absl::Status CheckNumSequences(int64_t sequences, const std::string& path);

/// Rows of one sequence.
struct SequenceRows {
  int64_t first_row = 0;
  int64_t rows = 0;
};

/// The leading extents of a tensor: padded `[batch_size, seq_len, ...]`, or packed `[seq_len,
/// ...]`.
struct RowLayout {
  bool is_padded = false;
  int64_t batch_size = 1;
  int64_t seq_len = 0;
};

/// The leading extents of `shape`, of rank `padded_rank` or one less.
RowLayout LayoutOf(const Shape& shape, size_t padded_rank);

/// Rows of the longest sequence; of a padded tensor, whatever the lengths, its own.
int64_t LongestOf(const std::vector<SequenceRows>& sequences, const RowLayout& layout);

using Lengths = google::protobuf::RepeatedField<int64_t>;

/// Empty `lengths` means that every sequence is full; packed rows are then one sequence. `path` is
/// the field of `lengths`. INVALID_ARGUMENT for a wrong number of values, one out of range, or
/// packed lengths with a wrong sum; RESOURCE_EXHAUSTED for more than kMaxSequences.
absl::StatusOr<std::vector<SequenceRows>> ReadLengths(const Lengths& lengths,
                                                      const RowLayout& layout,
                                                      const std::string& path);

}  // namespace attention
