// The positions of each sequence's rows in a request's tensor.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "proto/codec/request_limits.h"
#include "server/services/plan/field_error.h"

namespace attention {

/// The maximum number of tables of weights, log-sum-exp and largest weights in a reply. A reply has
/// one table of each requested kind, and of each chosen layer, for each sequence.
inline constexpr int64_t kMaxScoreTables = 16384;

/// Returns RESOURCE_EXHAUSTED for more than kMaxSequences; `path` names the field.
absl::Status CheckNumSequences(int64_t sequences, const FieldPath& path);

/// The rows of one sequence.
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

/// Returns the leading extents of `shape`, whose rank is `padded_rank` or one less.
RowLayout LayoutOf(const Shape& shape, size_t padded_rank);

/// Returns the rows of the longest sequence; for a padded tensor its extent, whatever the lengths.
int64_t LongestOf(const std::vector<SequenceRows>& sequences, const RowLayout& layout);

using Lengths = google::protobuf::RepeatedField<int64_t>;

/// Returns the rows of each sequence. Empty `lengths` mean that every sequence is full; packed rows
/// are then one sequence. `path` is the field of `lengths`. INVALID_ARGUMENT for a wrong number of
/// values, a value out of range, or packed lengths with a wrong sum; RESOURCE_EXHAUSTED for more
/// than kMaxSequences.
absl::StatusOr<std::vector<SequenceRows>> ReadLengths(const Lengths& lengths,
                                                      const RowLayout& layout,
                                                      const FieldPath& path);

}  // namespace attention
