#include "core/models/validate_run.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/runtime/call_field.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status CheckRowsOf(const char* what, const MatrixView& rows, int64_t width) {
  if (rows.dtype != Dtype::kF32) {
    return WrongField({what, " dtype"}, std::string(Name(Dtype::kF32)),
                      std::string(Name(rows.dtype)));
  }
  return ExpectEqual({what, " columns"}, width, rows.cols);
}

absl::Status CheckEarlier(int64_t index, const ModelInfo& info, const ModelSequence& s) {
  if (s.earlier.rows == 0) {
    return absl::OkStatus();
  }
  const int64_t cached = s.caches.empty() ? 0 : s.caches.front().length();
  RETURN_IF_ERROR(ExpectEqual({"earlier", " rows", index}, cached, s.earlier.rows));
  return CheckRowsOf("earlier", s.earlier, info.d_model);
}

absl::Status CheckWanted(int64_t index, const Model& model, const ModelSequence& s) {
  const ModelInfo& info = model.info();
  const bool wants_logits =
      s.wanted == ModelOutput::kLogits || s.wanted == ModelOutput::kLastLogits;
  if (wants_logits && !info.has_logits) {
    return WrongField({"wanted", "", index}, "an output of the model, which has no logits",
                      "logits");
  }
  RETURN_IF_ERROR(CheckEarlier(index, info, s));
  const Model::OutputExtents extents = model.OutputOf(s.wanted, s.earlier.rows + s.seq_len);
  RETURN_IF_ERROR(ExpectEqual({"output rows", "", index}, extents.rows, s.output.rows));
  RETURN_IF_ERROR(ExpectEqual({"output columns", "", index}, extents.width, s.output.cols));
  const int64_t layers = std::ssize(info.layers);
  return s.caches.empty() ? absl::OkStatus()
                          : ExpectEqual({"caches", "", index}, layers, std::ssize(s.caches));
}

absl::Status CheckWeights(int64_t index, const ModelInfo& info, const ModelSequence& s) {
  if (s.weights_choice == nullptr) {
    return absl::OkStatus();
  }
  const WeightsChoice& choice = *s.weights_choice;
  RETURN_IF_ERROR(
      ExpectEqual({"weights", "", index}, std::ssize(choice.layers), std::ssize(s.weights)));
  for (size_t i = 0; i < choice.layers.size(); ++i) {
    const int64_t layer = choice.layers[i];
    RETURN_IF_ERROR(
        ExpectWithin({"weights_choice.layers", "", index}, 0, std::ssize(info.layers) - 1, layer));
    if (i > 0 && layer <= choice.layers[i - 1]) {
      return WrongField({"weights_choice.layers", "", index}, "ascending layers, each once",
                        absl::StrCat(layer, " after ", choice.layers[i - 1]));
    }
    for (const int64_t head : choice.heads) {
      RETURN_IF_ERROR(ExpectWithin({"weights_choice.heads", "", index}, 0,
                                   info.layers[layer].shape.num_heads - 1, head));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateRun(const Model& model, const ModelCall& call) {
  const ModelInfo& info = model.info();
  if (!info.has_stack) {
    return WrongField({"model"}, "one with a stack", "a layer alone");
  }
  RETURN_IF_ERROR(CheckRowsOf("hidden_states", call.hidden_states, info.d_model));
  if (call.memory.has_value() && !info.has_encoder) {
    return WrongField({"memory"}, "none of a model without an encoder", "some");
  }
  if (call.memory.has_value()) {
    RETURN_IF_ERROR(CheckRowsOf("memory", *call.memory, info.d_model));
  }
  int64_t next_row = 0;
  int64_t next_memory_row = 0;
  for (int64_t index = 0; index < std::ssize(call.sequences); ++index) {
    const ModelSequence& s = call.sequences[index];
    RETURN_IF_ERROR(ExpectEqual({"first_row", "", index}, next_row, s.first_row));
    RETURN_IF_ERROR(
        ExpectWithin({"seq_len", "", index}, 1, call.hidden_states.rows - next_row, s.seq_len));
    next_row += s.seq_len;
    if (call.memory.has_value()) {
      RETURN_IF_ERROR(
          ExpectEqual({"first_memory_row", "", index}, next_memory_row, s.first_memory_row));
      RETURN_IF_ERROR(ExpectWithin({"memory_len", "", index}, 0,
                                   call.memory->rows - next_memory_row, s.memory_len));
      next_memory_row += s.memory_len;
    }
    RETURN_IF_ERROR(CheckWanted(index, model, s));
    RETURN_IF_ERROR(CheckWeights(index, info, s));
  }
  RETURN_IF_ERROR(ExpectEqual({"rows of all sequences"}, call.hidden_states.rows, next_row));
  return call.memory.has_value()
             ? ExpectEqual({"memory rows of all sequences"}, call.memory->rows, next_memory_row)
             : absl::OkStatus();
}

}  // namespace attention
