#include "server/services/plan/row_lengths.h"

#include <algorithm>

#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status CheckLength(const Lengths& lengths, int i, int64_t max, const FieldPath& path) {
  if (lengths[i] < 0 || lengths[i] > max) {
    return Wrong(path, "[", i, "]: expected 0 to ", max, ", found ", lengths[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SequenceRows>> ReadPadded(const Lengths& lengths,
                                                     const RowLayout& layout,
                                                     const FieldPath& path) {
  if (!lengths.empty() && lengths.size() != layout.batch_size) {
    return Wrong(path, ": expected no value or one for each of the ", layout.batch_size,
                 " sequences, found ", lengths.size());
  }
  std::vector<SequenceRows> result;
  result.reserve(static_cast<size_t>(layout.batch_size));
  for (int64_t i = 0; i < layout.batch_size; ++i) {
    int64_t rows = layout.seq_len;
    if (!lengths.empty()) {
      RETURN_IF_ERROR(CheckLength(lengths, static_cast<int>(i), layout.seq_len, path));
      rows = lengths[static_cast<int>(i)];
    }
    result.push_back({i * layout.seq_len, rows});
  }
  return result;
}

absl::StatusOr<std::vector<SequenceRows>> ReadPacked(const Lengths& lengths,
                                                     const RowLayout& layout,
                                                     const FieldPath& path) {
  if (lengths.empty()) {
    return std::vector<SequenceRows>{{0, layout.seq_len}};
  }
  std::vector<SequenceRows> result;
  result.reserve(static_cast<size_t>(lengths.size()));
  int64_t sum = 0;
  for (int i = 0; i < lengths.size(); ++i) {
    RETURN_IF_ERROR(CheckLength(lengths, i, layout.seq_len, path));
    result.push_back({sum, lengths[i]});
    sum += lengths[i];
  }
  if (sum != layout.seq_len) {
    return Wrong(path, ": expected a sum of ", layout.seq_len, ", the packed rows, found ", sum);
  }
  return result;
}

}  // namespace

absl::Status CheckNumSequences(int64_t sequences, const FieldPath& path) {
  return sequences <= kMaxSequences
             ? absl::OkStatus()
             : FieldError(absl::StatusCode::kResourceExhausted, path, ": expected at most ",
                          kMaxSequences, " sequences in a request, found ", sequences);
}

RowLayout LayoutOf(const Shape& shape, size_t padded_rank) {
  if (shape.size() == padded_rank) {
    return {.is_padded = true, .batch_size = shape[0], .seq_len = shape[1]};
  }
  return {.is_padded = false, .batch_size = 1, .seq_len = shape[0]};
}

int64_t LongestOf(const std::vector<SequenceRows>& sequences, const RowLayout& layout) {
  int64_t longest = layout.is_padded ? layout.seq_len : 0;
  for (const SequenceRows& sequence : sequences) {
    longest = std::max(longest, sequence.rows);
  }
  return longest;
}

absl::StatusOr<std::vector<SequenceRows>> ReadLengths(const Lengths& lengths,
                                                      const RowLayout& layout,
                                                      const FieldPath& path) {
  const int64_t sequences = layout.is_padded ? layout.batch_size : lengths.size();
  RETURN_IF_ERROR(CheckNumSequences(sequences, path));
  return layout.is_padded ? ReadPadded(lengths, layout, path) : ReadPacked(lengths, layout, path);
}

}  // namespace attention
