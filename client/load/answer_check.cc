#include "client/load/answer_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/sequences.h"
#include "core/reference/reference.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

using Doubles = std::vector<double>;

/// Rows [first, first + count) of a tensor whose last `inner` extents make one row.
Doubles RowsOf(const Tensor& tensor, int64_t first, int64_t count, int64_t row_elements) {
  std::vector<float> values(count * row_elements);
  Convert(tensor.dtype(), ElementAt(tensor.data(), tensor.dtype(), first * row_elements),
          Dtype::kF32, values.data(), count * row_elements);
  return Doubles(values.begin(), values.end());
}

Doubles AllOf(const Tensor& tensor) { return RowsOf(tensor, 0, 1, tensor.num_elements()); }

Doubles ToDoubles(const std::vector<float>& values) {
  return Doubles(values.begin(), values.end());
}

reference::Layer MakeLayer(const v1::Model& model, Dtype dtype) {
  SeededLayer seeded =
      MakeSeededLayer(model.seed(), dtype, model.d_model(), model.num_heads(), model.num_kv_heads(),
                      model.head_dim(), model.value_head_dim());
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

/// Token plus position rows, positions counted from 0 per sequence, rounded to the model's dtype as
/// the server does.
Tensor Embed(const v1::Model& model, Dtype dtype, const TokenIdsInput& input,
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
      for (int64_t e = 0; e < width; ++e) {
        rows.as<float>()[row * width + e] =
            tokens[input.ids[row] * width + e] + positions[i * width + e];
      }
    }
  }
  return rows.ConvertedTo(dtype).ConvertedTo(Dtype::kF32);
}

/// A server that answered these tokens is not the one that described the model.
absl::Status CheckTokens(const v1::Model& model, const AttendRequest& request,
                         const std::vector<SequenceSpan>& sequences) {
  const auto* tokens = std::get_if<TokenIdsInput>(&request.input);
  if (tokens == nullptr) {
    return absl::OkStatus();
  }
  for (const int32_t id : tokens->ids) {
    if (id < 0 || id >= model.vocab_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id: expected 0 to ", model.vocab_size() - 1, ", found ", id));
    }
  }
  for (const SequenceSpan& sequence : sequences) {
    if (sequence.query_len > model.max_positions()) {
      return absl::InvalidArgumentError(absl::StrCat("sequence: expected at most ",
                                                     model.max_positions(), " tokens, found ",
                                                     sequence.query_len));
    }
  }
  return absl::OkStatus();
}

/// What the whole answer should be.
struct Expected {
  Doubles output;
  std::vector<Doubles> weights;  // [sequence][H * query_len * kv_len]
};

/// Writes one sequence's rows where they belong; rows of padding stay 0.
void Place(const SequenceSpan& span, reference::AttentionResult result, int64_t row_elements,
           Expected& expected) {
  std::copy(result.output.begin(), result.output.end(),
            expected.output.begin() + span.first_row * row_elements);
  expected.weights.push_back(std::move(result.weights));
}

Expected ExpectedOfLayer(const v1::Model& model, Dtype dtype, const AttendRequest& request,
                         const std::vector<SequenceSpan>& sequences) {
  const reference::Layer layer = MakeLayer(model, dtype);
  const int64_t width = model.d_model();
  Tensor embedded;
  const Tensor* rows = &embedded;
  const Tensor* memory = nullptr;
  if (const auto* tokens = std::get_if<TokenIdsInput>(&request.input)) {
    embedded = Embed(model, dtype, *tokens, sequences);
  } else {
    const auto& input = std::get<HiddenStatesInput>(request.input);
    rows = input.tensor;
    memory = input.memory;
  }
  Expected expected{.output = Doubles(rows->num_elements(), 0.0), .weights = {}};
  for (const SequenceSpan& span : sequences) {
    const reference::Options options{request.causal.value_or(model.causal()), request.scale,
                                     span.query_offset};
    const Doubles query_rows = RowsOf(*rows, span.first_row, span.query_len, width);
    if (memory == nullptr) {
      Place(span, reference::MultiHeadAttention(layer, query_rows, {}, options), width, expected);
    } else if (span.kv_len > 0) {
      const Doubles memory_rows = RowsOf(*memory, span.first_kv_row, span.kv_len, width);
      Place(span, reference::MultiHeadAttention(layer, query_rows, memory_rows, options), width,
            expected);
    } else {
      // The reference takes an empty memory for none. A row that sees no key is left with the
      // output's bias.
      reference::AttentionResult result;
      for (int64_t i = 0; i < span.query_len; ++i) {
        result.output.insert(result.output.end(), layer.output_bias.begin(),
                             layer.output_bias.end());
      }
      Place(span, std::move(result), width, expected);
    }
  }
  return expected;
}

Expected ExpectedOfAttention(const AttendRequest& request,
                             const std::vector<SequenceSpan>& sequences) {
  const auto& input = std::get<QueryKeyValueInput>(request.input);
  const auto last = [](const Tensor& tensor, size_t i) {
    return tensor.shape()[tensor.shape().size() - i];
  };
  const int64_t num_heads = last(*input.query, 2), num_kv_heads = last(*input.key, 2);
  const int64_t head_dim = last(*input.query, 1), value_head_dim = last(*input.value, 1);
  const int64_t query_rows =
      head_dim == 0 ? 0 : input.query->num_elements() / (num_heads * head_dim);
  Expected expected{.output = Doubles(query_rows * num_heads * value_head_dim, 0.0), .weights = {}};
  for (const SequenceSpan& span : sequences) {
    const reference::Extents extents{span.query_len, span.kv_len, num_heads,
                                     num_kv_heads,   head_dim,    value_head_dim};
    const reference::Options options{request.causal.value_or(false), request.scale,
                                     span.query_offset};
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

double Tolerance(bool is_layer, bool is_low_precision) {
  if (is_layer) {
    return is_low_precision ? reference::kLayerToleranceBf16 : reference::kLayerToleranceF32;
  }
  return is_low_precision ? reference::kAttentionToleranceBf16 : reference::kAttentionToleranceF32;
}

absl::StatusOr<AnswerCheck> Compare(const Expected& expected, const AttendResult& result,
                                    double tolerance) {
  if (result.output.num_elements() != std::ssize(expected.output)) {
    return absl::InvalidArgumentError(
        absl::StrCat("output: expected ", expected.output.size(), " elements, found [",
                     absl::StrJoin(result.output.shape(), ", "), "]"));
  }
  AnswerCheck check{.relative_l2 = reference::RelativeL2(AllOf(result.output), expected.output),
                    .tolerance = tolerance,
                    .weights_relative_l2 = std::nullopt};
  if (result.weights.empty()) {
    return check;
  }
  Doubles actual_weights, expected_weights;
  for (const Tensor& weights : result.weights) {
    const Doubles values = AllOf(weights);
    actual_weights.insert(actual_weights.end(), values.begin(), values.end());
  }
  for (const Doubles& weights : expected.weights) {
    expected_weights.insert(expected_weights.end(), weights.begin(), weights.end());
  }
  if (actual_weights.size() != expected_weights.size()) {
    return absl::InvalidArgumentError(absl::StrCat("weights: expected ", expected_weights.size(),
                                                   " values, found ", actual_weights.size()));
  }
  check.weights_relative_l2 = reference::RelativeL2(actual_weights, expected_weights);
  return check;
}

}  // namespace

absl::StatusOr<AnswerCheck> CheckAnswer(const v1::Model* model, const AttendRequest& request,
                                        const AttendResult& result) {
  ASSIGN_OR_RETURN(const std::vector<SequenceSpan> sequences, SequencesOf(request));
  if (const auto* input = std::get_if<QueryKeyValueInput>(&request.input)) {
    return Compare(ExpectedOfAttention(request, sequences), result,
                   Tolerance(/*is_layer=*/false, input->query->dtype() != Dtype::kF32));
  }
  if (model == nullptr || !model->has_seed()) {
    return absl::FailedPreconditionError(
        absl::StrCat("model \"", request.model,
                     "\" cannot be verified: its weights are not generated from a seed"));
  }
  RETURN_IF_ERROR(CheckTokens(*model, request, sequences));
  const Dtype dtype = model->dtype() == v1::BF16 ? Dtype::kBf16 : Dtype::kF32;
  const bool is_low_precision = dtype != Dtype::kF32 || result.output.dtype() != Dtype::kF32;
  return Compare(ExpectedOfLayer(*model, dtype, request, sequences), result,
                 Tolerance(/*is_layer=*/true, is_low_precision));
}

}  // namespace attention
