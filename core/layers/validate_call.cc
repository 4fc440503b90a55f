#include "core/layers/validate_call.h"

#include <optional>
#include <string>

#include "core/attention/check_options.h"
#include "core/runtime/call_field.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// Checks one of the packed inputs of the call.
absl::Status CheckInput(const char* what, const std::optional<MatrixView>& rows, bool is_wanted,
                        int64_t width) {
  if (rows.has_value() != is_wanted) {
    return WrongField({what}, is_wanted ? "rows" : "none", is_wanted ? "none" : "some");
  }
  return rows.has_value() ? ExpectEqual({what, " columns"}, width, rows->cols) : absl::OkStatus();
}

absl::Status CheckInputs(const MultiHeadAttentionShape& shape, const LayerCall& call) {
  RETURN_IF_ERROR(CheckInput("hidden_states", call.hidden_states, true, shape.d_model));
  RETURN_IF_ERROR(CheckInput("memory", call.memory, call.memory.has_value() || shape.needs_memory(),
                             shape.d_memory));
  const bool has_values = shape.has_memory_values();
  RETURN_IF_ERROR(
      CheckInput("memory_values", call.memory_values, has_values, shape.d_memory_value));
  if (has_values) {
    RETURN_IF_ERROR(
        ExpectEqual({"memory_values rows"}, call.memory->rows, call.memory_values->rows));
  }
  RETURN_IF_ERROR(CheckInput("residual", call.residual, call.residual.has_value(), shape.d_model));
  if (!call.residual.has_value()) {
    return absl::OkStatus();
  }
  if (call.residual->dtype != Dtype::kF32) {
    return WrongField({"residual dtype"}, std::string(Name(Dtype::kF32)),
                      std::string(Name(call.residual->dtype)));
  }
  return ExpectEqual({"residual rows"}, call.hidden_states.rows, call.residual->rows);
}

/// Checks the sequences of a call in their order.
class SequenceChecker {
 public:
  SequenceChecker(const MultiHeadAttentionShape& shape, const LayerCall& call)
      : shape_(shape), call_(call) {}

  absl::Status Check(int64_t index);
  /// Checks that the sequences cover all rows. Call it after the last sequence.
  absl::Status CheckEnd();

 private:
  absl::Status CheckRows(int64_t index, const LayerSequence& s);
  absl::Status CheckOutput(int64_t index, const LayerSequence& s) const;
  absl::Status CheckSequenceOptions(int64_t index, const LayerSequence& s) const;

  const MultiHeadAttentionShape& shape_;
  const LayerCall& call_;
  int64_t next_row_ = 0;
  int64_t next_memory_row_ = 0;
};

absl::Status SequenceChecker::CheckRows(int64_t index, const LayerSequence& s) {
  RETURN_IF_ERROR(ExpectEqual({"first_row", "", index}, next_row_, s.first_row));
  const int64_t rows_left = call_.hidden_states.rows - next_row_;
  RETURN_IF_ERROR(ExpectWithin({"query_len", "", index}, 0, rows_left, s.query_len));
  next_row_ += s.query_len;
  if (!call_.memory.has_value()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(
      ExpectEqual({"first_memory_row", "", index}, next_memory_row_, s.first_memory_row));
  const int64_t memory_left = call_.memory->rows - next_memory_row_;
  RETURN_IF_ERROR(ExpectWithin({"memory_len", "", index}, 0, memory_left, s.memory_len));
  next_memory_row_ += s.memory_len;
  return absl::OkStatus();
}

absl::Status SequenceChecker::CheckOutput(int64_t index, const LayerSequence& s) const {
  RETURN_IF_ERROR(ExpectEqual({"output rows", "", index}, s.query_len, s.output.rows));
  return ExpectEqual({"output columns", "", index}, shape_.d_model, s.output.cols);
}

absl::Status SequenceChecker::CheckSequenceOptions(int64_t index, const LayerSequence& s) const {
  const int64_t own_keys = call_.memory.has_value() ? s.memory_len : s.query_len;
  const int64_t kv_len = own_keys + (s.cache == nullptr ? 0 : s.cache->length());
  RETURN_IF_ERROR(ValidateTopWeights(s.top_weights, kv_len, index));
  const std::optional<OptionError> error =
      CheckOptions(s.options, {.num_heads = shape_.num_heads,
                               .head_dim = shape_.head_dim,
                               .kv_len = kv_len,
                               .has_cache = s.cache != nullptr});
  return error.has_value() ? StatusOf(*error, index) : absl::OkStatus();
}

absl::Status SequenceChecker::Check(int64_t index) {
  const LayerSequence& s = call_.sequences[index];
  RETURN_IF_ERROR(CheckRows(index, s));
  RETURN_IF_ERROR(CheckOutput(index, s));
  return CheckSequenceOptions(index, s);
}

absl::Status SequenceChecker::CheckEnd() {
  RETURN_IF_ERROR(ExpectEqual({"rows of all sequences"}, call_.hidden_states.rows, next_row_));
  if (call_.memory.has_value()) {
    return ExpectEqual({"memory rows of all sequences"}, call_.memory->rows, next_memory_row_);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateCall(const MultiHeadAttentionShape& shape, const LayerCall& call) {
  RETURN_IF_ERROR(CheckInputs(shape, call));
  SequenceChecker checker(shape, call);
  for (int64_t i = 0; i < std::ssize(call.sequences); ++i) {
    RETURN_IF_ERROR(checker.Check(i));
  }
  return checker.CheckEnd();
}

}  // namespace attention
