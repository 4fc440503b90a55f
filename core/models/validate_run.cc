#include "core/models/validate_run.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// A field of the call, which is named in an error.
struct Item {
  const char* name = nullptr;
  const char* part = "";
  /// The sequence of the field; -1: the field belongs to the call.
  int64_t sequence = -1;
};

absl::Status Unexpected(const Item& item, const absl::AlphaNum& expected,
                        const absl::AlphaNum& found) {
  const std::string sequence =
      item.sequence < 0 ? "" : absl::StrCat("sequence ", item.sequence, ": ");
  return absl::InvalidArgumentError(absl::StrCat(sequence, item.name, item.part, ": expected ",
                                                 expected.Piece(), ", found ", found.Piece()));
}

absl::Status Same(const Item& what, int64_t expected, int64_t found) {
  return expected == found ? absl::OkStatus() : Unexpected(what, expected, found);
}

absl::Status Within(const Item& what, int64_t least, int64_t most, int64_t found) {
  return found >= least && found <= most
             ? absl::OkStatus()
             : Unexpected(what, absl::StrCat(least, " to ", most), found);
}

absl::Status CheckRowsOf(const char* what, const MatrixView& rows, int64_t width) {
  if (rows.dtype != Dtype::kF32) {
    return Unexpected({what, " dtype"}, std::string(Name(Dtype::kF32)),
                      std::string(Name(rows.dtype)));
  }
  return Same({what, " columns"}, width, rows.cols);
}

absl::Status CheckEarlier(int64_t index, const ModelInfo& info, const ModelSequence& s) {
  if (s.earlier.rows == 0) {
    return absl::OkStatus();
  }
  const int64_t cached = s.caches.empty() ? 0 : s.caches.front().length();
  RETURN_IF_ERROR(Same({"earlier", " rows", index}, cached, s.earlier.rows));
  return CheckRowsOf("earlier", s.earlier, info.d_model);
}

absl::Status CheckWanted(int64_t index, const Model& model, const ModelSequence& s) {
  const ModelInfo& info = model.info();
  const bool wants_logits =
      s.wanted == ModelOutput::kLogits || s.wanted == ModelOutput::kLastLogits;
  if (wants_logits && !info.has_logits) {
    return Unexpected({"wanted", "", index}, "no logits of a model without them", "logits");
  }
  RETURN_IF_ERROR(CheckEarlier(index, info, s));
  const Model::OutputExtents extents = model.OutputOf(s.wanted, s.earlier.rows + s.seq_len);
  RETURN_IF_ERROR(Same({"output rows", "", index}, extents.rows, s.output.rows));
  RETURN_IF_ERROR(Same({"output columns", "", index}, extents.width, s.output.cols));
  const int64_t layers = std::ssize(info.layers);
  return s.caches.empty() ? absl::OkStatus()
                          : Same({"caches", "", index}, layers, std::ssize(s.caches));
}

absl::Status CheckWeights(int64_t index, const ModelInfo& info, const ModelSequence& s) {
  if (s.weights_choice == nullptr) {
    return absl::OkStatus();
  }
  const WeightsChoice& choice = *s.weights_choice;
  RETURN_IF_ERROR(Same({"weights", "", index}, std::ssize(choice.layers), std::ssize(s.weights)));
  for (const int64_t layer : choice.layers) {
    RETURN_IF_ERROR(
        Within({"weights_choice.layers", "", index}, 0, std::ssize(info.layers) - 1, layer));
    for (const int64_t head : choice.heads) {
      RETURN_IF_ERROR(Within({"weights_choice.heads", "", index}, 0,
                             info.layers[layer].shape.num_heads - 1, head));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateRun(const Model& model, const ModelCall& call) {
  const ModelInfo& info = model.info();
  if (!info.has_stack) {
    return Unexpected({"model"}, "one with a stack", "a layer alone");
  }
  RETURN_IF_ERROR(CheckRowsOf("hidden_states", call.hidden_states, info.d_model));
  if (call.memory.has_value() && !info.has_encoder) {
    return Unexpected({"memory"}, "none of a model without an encoder", "some");
  }
  if (call.memory.has_value()) {
    RETURN_IF_ERROR(CheckRowsOf("memory", *call.memory, info.d_model));
  }
  int64_t next_row = 0;
  int64_t next_memory_row = 0;
  for (int64_t index = 0; index < std::ssize(call.sequences); ++index) {
    const ModelSequence& s = call.sequences[index];
    RETURN_IF_ERROR(Same({"first_row", "", index}, next_row, s.first_row));
    RETURN_IF_ERROR(
        Within({"seq_len", "", index}, 1, call.hidden_states.rows - next_row, s.seq_len));
    next_row += s.seq_len;
    if (call.memory.has_value()) {
      RETURN_IF_ERROR(Same({"first_memory_row", "", index}, next_memory_row, s.first_memory_row));
      RETURN_IF_ERROR(
          Within({"memory_len", "", index}, 0, call.memory->rows - next_memory_row, s.memory_len));
      next_memory_row += s.memory_len;
    }
    RETURN_IF_ERROR(CheckWanted(index, model, s));
    RETURN_IF_ERROR(CheckWeights(index, info, s));
  }
  return Same({"rows of all sequences"}, call.hidden_states.rows, next_row);
}

}  // namespace attention
