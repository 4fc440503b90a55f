#include "server/services/open_inference/input_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"
#include "server/services/open_inference/native_errors.h"
#include "server/services/plan/field_error.h"

namespace attention {
namespace {

absl::Status CheckExtents(const std::string& name, const Shape& found, const Shape& expected) {
  return found == expected ? absl::OkStatus()
                           : Wrong(InputName(name), ": expected shape ", ShapeText(expected),
                                   ", found ", ShapeText(found));
}

absl::StatusOr<std::vector<SequenceRows>> RowsOfLengths(const InferInputs& inputs,
                                                        const PaddedExtents& extents) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths,
                   ReadLengthsInput(inputs, "lengths", extents.batch_size));
  std::vector<SequenceRows> rows;
  rows.reserve(lengths.size());
  for (const int64_t length : lengths) {
    if (length < 0 || length > extents.seq_len) {
      return Wrong(InputName("lengths"), "[", rows.size(), "]: expected 0 to ", extents.seq_len,
                   ", found ", length);
    }
    rows.push_back({0, length});
  }
  return rows;
}

absl::StatusOr<SequenceRows> RangeOfOnes(const int64_t* mask, int64_t seq_len, int64_t row) {
  SequenceRows range;
  for (int64_t i = 0; i < seq_len; ++i) {
    if (mask[i] != 0 && mask[i] != 1) {
      return Wrong(InputName("attention_mask"), "[", row, ", ", i, "]: expected 0 or 1, found ",
                   mask[i]);
    }
    if (mask[i] == 1 && range.rows > 0 && range.first_row + range.rows < i) {
      return Wrong(
          InputName("attention_mask"), "[", row, ", ", i,
          "]: expected one contiguous range of ones in each row, found a second after position ",
          range.first_row + range.rows - 1);
    }
    if (mask[i] == 1) {
      range.first_row = range.rows == 0 ? i : range.first_row;
      ++range.rows;
    }
  }
  return range;
}

absl::StatusOr<std::vector<SequenceRows>> RowsOfMask(const InferInputs& inputs,
                                                     const PaddedExtents& extents) {
  const InferInput& input = *inputs.Find("attention_mask");
  RETURN_IF_ERROR(
      CheckExtents("attention_mask", input.shape, {extents.batch_size, extents.seq_len}));
  const std::vector<int64_t> mask = inputs.Integers(input);
  std::vector<SequenceRows> rows;
  rows.reserve(static_cast<size_t>(extents.batch_size));
  for (int64_t row = 0; row < extents.batch_size; ++row) {
    ASSIGN_OR_RETURN(const SequenceRows range,
                     RangeOfOnes(mask.data() + row * extents.seq_len, extents.seq_len, row));
    rows.push_back(range);
  }
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ReadLengthsInput(const InferInputs& inputs,
                                                      const std::string& name, int64_t batch_size) {
  const InferInput* const input = inputs.Find(name);
  if (input == nullptr) {
    return std::vector<int64_t>();
  }
  RETURN_IF_ERROR(CheckExtents(name, input->shape, {batch_size}));
  return inputs.Integers(*input);
}

absl::StatusOr<std::vector<SequenceRows>> ReadInputRows(const InferInputs& inputs,
                                                        const PaddedExtents& extents) {
  RETURN_IF_ERROR(CheckNumSequences(extents.batch_size, {"inputs"}));
  const bool has_lengths = inputs.Find("lengths") != nullptr;
  const bool has_mask = inputs.Find("attention_mask") != nullptr;
  if (has_lengths && has_mask) {
    return absl::InvalidArgumentError(
        "inputs: expected \"lengths\" or \"attention_mask\", found both");
  }
  if (has_lengths) {
    return RowsOfLengths(inputs, extents);
  }
  if (has_mask) {
    return RowsOfMask(inputs, extents);
  }
  return std::vector<SequenceRows>(static_cast<size_t>(extents.batch_size), {0, extents.seq_len});
}

}  // namespace attention
