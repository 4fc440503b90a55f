#include "client/load/answer_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/sequences.h"
#include "client/load/reference_options.h"
#include "core/reference/reference.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

using Doubles = std::vector<double>;

/// The answer in double precision.
struct ExpectedAnswer {
  Doubles output;
  // One for each sequence.
  std::vector<Doubles> weights;      // [H, query_len, kv_len]
  std::vector<Doubles> log_sum_exp;  // [H, query_len]
};

/// Returns `count` elements of `tensor`, from the element `first` on.
Doubles DoublesOf(const Tensor& tensor, int64_t first, int64_t count) {
  std::vector<float> values(count);
  Convert(tensor.dtype(), ElementAt(tensor.data(), tensor.dtype(), first), Dtype::kF32,
          values.data(), count);
  return Doubles(values.begin(), values.end());
}

/// Returns the relative error over the tensors of all sequences; infinite if an infinite value is
/// expected and another found.
absl::StatusOr<double> CompareTensors(const std::vector<Doubles>& expected,
                                      const std::vector<Tensor>& actual, const char* name) {
  Doubles all_actual, all_expected;
  for (const Tensor& tensor : actual) {
    const Doubles values = DoublesOf(tensor, 0, tensor.num_elements());
    all_actual.insert(all_actual.end(), values.begin(), values.end());
  }
  for (const Doubles& values : expected) {
    all_expected.insert(all_expected.end(), values.begin(), values.end());
  }
  if (all_actual.size() != all_expected.size()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", all_expected.size(),
                                                   " values, found ", all_actual.size()));
  }
  for (size_t i = 0; i < all_expected.size(); ++i) {
    if (std::isinf(all_expected[i]) && all_actual[i] != all_expected[i]) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return reference::RelativeL2(all_actual, all_expected);
}

/// Appends the largest weights of one sequence twice to `actual`. Their expected values are the
/// largest of `weights`, and the weights of the answer's keys, because equal weights may come in
/// any order.
absl::Status AppendTopWeights(const Doubles& weights, const LargestWeights& top, Doubles& actual,
                              Doubles& expected) {
  const Shape& shape = top.weights.shape();
  const int64_t k = shape.size() == 3 ? shape[2] : 0;
  const int64_t rows = shape.size() == 3 ? shape[0] * shape[1] : 0;
  const int64_t kv_len = rows == 0 ? 0 : std::ssize(weights) / rows;
  if (shape.size() != 3 || rows * kv_len != std::ssize(weights) || (rows > 0 && k > kv_len) ||
      std::ssize(top.keys) != rows * k) {
    return absl::InvalidArgumentError(absl::StrCat("top_weights: expected those of ",
                                                   weights.size(), " weights, found [",
                                                   absl::StrJoin(shape, ", "), "]"));
  }
  const Doubles values = DoublesOf(top.weights, 0, top.weights.num_elements());
  for (int64_t row = 0; row < rows; ++row) {
    Doubles sorted(weights.begin() + row * kv_len, weights.begin() + (row + 1) * kv_len);
    std::partial_sort(sorted.begin(), sorted.begin() + k, sorted.end(), std::greater<>());
    for (int64_t i = 0; i < k; ++i) {
      const int64_t key = top.keys[row * k + i];
      const bool is_key = key >= 0 && key < kv_len;
      actual.insert(actual.end(), 2, values[row * k + i]);
      expected.push_back(sorted[i]);
      expected.push_back(is_key ? weights[row * kv_len + key] : 0);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> CompareTopWeights(const std::vector<Doubles>& weights,
                                         const std::vector<LargestWeights>& top) {
  if (top.size() != weights.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_weights: expected ", weights.size(), " sequences, found ", top.size()));
  }
  Doubles actual, expected;
  for (size_t s = 0; s < top.size(); ++s) {
    RETURN_IF_ERROR(AppendTopWeights(weights[s], top[s], actual, expected));
  }
  return reference::RelativeL2(actual, expected);
}

/// Compares `result` with the expected answer. INVALID_ARGUMENT if it has another shape.
absl::StatusOr<AnswerCheck> CompareAnswer(const ExpectedAnswer& expected,
                                          const AttendResult& result, double tolerance) {
  if (result.output.num_elements() != std::ssize(expected.output)) {
    return absl::InvalidArgumentError(
        absl::StrCat("output: expected ", expected.output.size(), " elements, found [",
                     absl::StrJoin(result.output.shape(), ", "), "]"));
  }
  AnswerCheck check{.relative_l2 = reference::RelativeL2(
                        DoublesOf(result.output, 0, result.output.num_elements()), expected.output),
                    .tolerance = tolerance};
  if (!result.weights.empty()) {
    ASSIGN_OR_RETURN(check.others_relative_l2["weights"],
                     CompareTensors(expected.weights, result.weights, "weights"));
  }
  if (!result.log_sum_exp.empty()) {
    ASSIGN_OR_RETURN(check.others_relative_l2["log_sum_exp"],
                     CompareTensors(expected.log_sum_exp, result.log_sum_exp, "log_sum_exp"));
  }
  if (!result.top_weights.empty()) {
    ASSIGN_OR_RETURN(check.others_relative_l2["top_weights"],
                     CompareTopWeights(expected.weights, result.top_weights));
  }
  return check;
}

/// Returns rows [first, first + count) of a tensor.
Doubles RowsOf(const Tensor& tensor, int64_t first, int64_t count, int64_t row_elements) {
  return DoublesOf(tensor, first * row_elements, count * row_elements);
}

Doubles ToDoubles(const std::vector<float>& values) {
  return Doubles(values.begin(), values.end());
}

reference::Layer MakeLayer(const v1::Model& model, Dtype dtype) {
  SeededLayer seeded = MakeSeededLayer(model.seed(), dtype,
                                       {.d_model = model.d_model(),
                                        .num_heads = model.num_heads(),
                                        .num_kv_heads = model.num_kv_heads(),
                                        .head_dim = model.head_dim(),
                                        .value_head_dim = model.value_head_dim()});
  reference::Layer layer;
  layer.d_model = layer.d_memory = model.d_model();
  layer.num_heads = model.num_heads();
  layer.num_kv_heads = model.num_kv_heads();
  layer.head_dim = model.head_dim();
  layer.value_head_dim = model.value_head_dim();
  layer.query = ToDoubles(seeded.query);
  layer.key = ToDoubles(seeded.key);
  layer.value = ToDoubles(seeded.value);
  layer.output = ToDoubles(seeded.output);
  layer.query_bias = ToDoubles(seeded.query_bias);
  layer.key_bias = ToDoubles(seeded.key_bias);
  layer.value_bias = ToDoubles(seeded.value_bias);
  layer.output_bias = ToDoubles(seeded.output_bias);
  return layer;
}

/// Returns the sum of token and position rows, rounded to the model's dtype as the server does.
/// Positions count from 0 in each sequence. INVALID_ARGUMENT for tokens that a server with the
/// described model would have refused.
absl::StatusOr<Tensor> Embed(const v1::Model& model, Dtype dtype, const TokenIdsInput& input,
                             const std::vector<SequenceSpan>& sequences) {
  const int64_t width = model.d_model();
  const std::vector<float> tokens =
      MakeSeededEmbedding(model.seed(), dtype, "token_embedding", model.vocab_size(), width);
  const std::vector<float> positions =
      MakeSeededEmbedding(model.seed(), dtype, "position_embedding", model.max_positions(), width);
  Tensor rows(Dtype::kF32, {std::ssize(input.ids), width});
  for (const SequenceSpan& sequence : sequences) {
    for (int64_t i = 0; i < sequence.query_len; ++i) {
      const int64_t row = sequence.first_row + i;
      if (input.ids[row] < 0 || input.ids[row] >= model.vocab_size() ||
          i >= model.max_positions()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "token id: expected less than ", model.vocab_size(), ", and at most ",
            model.max_positions(), " in a sequence, found ", input.ids[row], " at ", i));
      }
      for (int64_t e = 0; e < width; ++e) {
        rows.as<float>()[row * width + e] =
            tokens[input.ids[row] * width + e] + positions[i * width + e];
      }
    }
  }
  return rows.ConvertedTo(dtype).ConvertedTo(Dtype::kF32);
}

/// Writes the rows of one sequence to their places; rows of padding stay 0.
void Place(const SequenceSpan& span, reference::AttentionResult result, int64_t row_elements,
           ExpectedAnswer& expected) {
  std::copy(result.output.begin(), result.output.end(),
            expected.output.begin() + span.first_row * row_elements);
  expected.weights.push_back(std::move(result.weights));
  expected.log_sum_exp.push_back(std::move(result.log_sum_exp));
}

/// The answer for rows without any key: the bias of the output. The reference cannot compute it,
/// because it takes an empty memory for none.
reference::AttentionResult AnswerWithoutKeys(const reference::Layer& layer, int64_t query_len) {
  reference::AttentionResult result;
  for (int64_t i = 0; i < query_len; ++i) {
    result.output.insert(result.output.end(), layer.output_bias.begin(), layer.output_bias.end());
  }
  result.log_sum_exp.assign(layer.num_heads * query_len, -std::numeric_limits<double>::infinity());
  return result;
}

absl::StatusOr<ExpectedAnswer> ExpectedOfLayer(const v1::Model& model, Dtype dtype,
                                               const AttendRequest& request,
                                               const std::vector<SequenceSpan>& sequences) {
  const reference::Layer layer = MakeLayer(model, dtype);
  const int64_t width = model.d_model();
  Tensor embedded;
  const Tensor* rows = &embedded;
  const Tensor* memory = nullptr;
  if (const auto* tokens = std::get_if<TokenIdsInput>(&request.input)) {
    ASSIGN_OR_RETURN(embedded, Embed(model, dtype, *tokens, sequences));
  } else {
    const auto& input = std::get<HiddenStatesInput>(request.input);
    rows = input.tensor;
    memory = input.memory;
  }
  const AttentionExtents extents{std::ssize(sequences), model.num_heads(), model.head_dim(),
                                 model.causal()};
  ExpectedAnswer expected{.output = Doubles(rows->num_elements(), 0.0)};
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SequenceSpan& span = sequences[i];
    ASSIGN_OR_RETURN(const reference::Options options,
                     ReferenceOptionsOf(request, extents, static_cast<int64_t>(i), span));
    const Doubles query_rows = RowsOf(*rows, span.first_row, span.query_len, width);
    if (memory != nullptr && span.kv_len == 0) {
      Place(span, AnswerWithoutKeys(layer, span.query_len), width, expected);
      continue;
    }
    const Doubles memory_rows =
        memory == nullptr ? Doubles() : RowsOf(*memory, span.first_kv_row, span.kv_len, width);
    Place(span, reference::MultiHeadAttention(layer, query_rows, memory_rows, options), width,
          expected);
  }
  return expected;
}

absl::StatusOr<ExpectedAnswer> ExpectedOfAttention(const AttendRequest& request,
                                                   const std::vector<SequenceSpan>& sequences) {
  const auto& input = std::get<QueryKeyValueInput>(request.input);
  const auto last = [](const Tensor& tensor, size_t i) {
    return tensor.shape()[tensor.shape().size() - i];
  };
  const int64_t num_heads = last(*input.query, 2), num_kv_heads = last(*input.key, 2);
  const int64_t head_dim = last(*input.query, 1), value_head_dim = last(*input.value, 1);
  const int64_t query_rows =
      head_dim == 0 ? 0 : input.query->num_elements() / (num_heads * head_dim);
  ExpectedAnswer expected{.output = Doubles(query_rows * num_heads * value_head_dim, 0.0)};
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SequenceSpan& span = sequences[i];
    const reference::Extents extents{span.query_len, span.kv_len, num_heads,
                                     num_kv_heads,   head_dim,    value_head_dim};
    ASSIGN_OR_RETURN(const reference::Options options,
                     ReferenceOptionsOf(request, {std::ssize(sequences), num_heads, head_dim},
                                        static_cast<int64_t>(i), span));
    Place(span,
          reference::Attention(
              extents, RowsOf(*input.query, span.first_row, span.query_len, num_heads * head_dim),
              RowsOf(*input.key, span.first_kv_row, span.kv_len, num_kv_heads * head_dim),
              RowsOf(*input.value, span.first_kv_row, span.kv_len, num_kv_heads * value_head_dim),
              options),
          num_heads * value_head_dim, expected);
  }
  return expected;
}

absl::Status CannotBeVerified(const AttendRequest& request, const char* why) {
  return absl::FailedPreconditionError(
      absl::StrCat("model \"", request.model, "\" cannot be verified: ", why));
}

double AttentionTolerance(Dtype dtype) {
  return dtype == Dtype::kF32 ? reference::kAttentionToleranceF32
                              : reference::kAttentionToleranceBf16;
}

/// The error that a layer of bf16 adds by rounding rows of a wider dtype, which it does on
/// processors that multiply bf16. Of N(0, 1) rows it is 2.8e-3, beside 3.0e-3 to 3.8e-3 of all else
/// (layers of 192 to 768 columns and heads of 32 to 128, each rounding simulated in double
/// precision).
constexpr double kRoundingOfRowsBf16 = 3e-3;

/// `dtype` is that of the layer.
double LayerTolerance(Dtype dtype, const AttendRequest& request, const AttendResult& result) {
  if (dtype == Dtype::kF32 && result.output.dtype() == Dtype::kF32) {
    return reference::kLayerToleranceF32;
  }
  const auto* rows = std::get_if<HiddenStatesInput>(&request.input);
  return dtype == Dtype::kBf16 && rows != nullptr && rows->tensor->dtype() != Dtype::kBf16
             ? std::hypot(reference::kLayerToleranceBf16, kRoundingOfRowsBf16)
             : reference::kLayerToleranceBf16;
}

}  // namespace

absl::StatusOr<AnswerCheck> CheckAnswer(const v1::Model* model, const AttendRequest& request,
                                        const AttendResult& result) {
  if (std::holds_alternative<TextInput>(request.input)) {
    return CannotBeVerified(request, "only the server can tokenize texts");
  }
  ASSIGN_OR_RETURN(const std::vector<SequenceSpan> sequences, SequencesOf(request));
  if (const auto* input = std::get_if<QueryKeyValueInput>(&request.input)) {
    ASSIGN_OR_RETURN(const ExpectedAnswer expected, ExpectedOfAttention(request, sequences));
    return CompareAnswer(expected, result, AttentionTolerance(input->query->dtype()));
  }
  if (model == nullptr || !model->has_seed()) {
    return CannotBeVerified(request, "its weights are not generated from a seed");
  }
  if (const auto* rows = std::get_if<HiddenStatesInput>(&request.input);
      model->has_stack() || (rows != nullptr && rows->tensor == nullptr)) {
    return CannotBeVerified(request, "only single attention layers are recomputed");
  }
  const Dtype dtype = model->dtype() == v1::BF16 ? Dtype::kBf16 : Dtype::kF32;
  if (dtype == Dtype::kBf16 && request.options.similarity() == v1::BOX) {
    return CannotBeVerified(request,
                            "rounding its rows to BF16 moves keys across the edge of the box");
  }
  ASSIGN_OR_RETURN(const ExpectedAnswer expected,
                   ExpectedOfLayer(*model, dtype, request, sequences));
  return CompareAnswer(expected, result, LayerTolerance(dtype, request, result));
}

absl::StatusOr<std::optional<AnswerCheck>> CheckIfReproducible(AttentionClient& client,
                                                               const AttendRequest& request,
                                                               const AttendResult& result) {
  v1::Model model;
  const bool has_model = !std::holds_alternative<QueryKeyValueInput>(request.input);
  if (has_model) {
    ASSIGN_OR_RETURN(model, client.GetModel(request.model, request.model_version));
    if (!model.has_seed()) {
      return std::nullopt;
    }
  }
  ASSIGN_OR_RETURN(const AnswerCheck check,
                   CheckAnswer(has_model ? &model : nullptr, request, result));
  return check;
}

}  // namespace attention
