#include "client/load/expected_answer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/load/reference_options.h"
#include "core/reference/reference.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

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

/// Adds the answer of one sequence: copies its rows to `span.first_row` on. Rows of padding stay 0.
void AddAnswer(const SequenceSpan& span, reference::AttentionResult result, int64_t row_elements,
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

}  // namespace

Doubles DoublesOf(const Tensor& tensor, int64_t first, int64_t count) {
  std::vector<float> values(count);
  Convert(tensor.dtype(), ElementAt(tensor.data(), tensor.dtype(), first), Dtype::kF32,
          values.data(), count);
  return Doubles(values.begin(), values.end());
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
      AddAnswer(span, AnswerWithoutKeys(layer, span.query_len), width, expected);
      continue;
    }
    const Doubles memory_rows =
        memory == nullptr ? Doubles() : RowsOf(*memory, span.first_kv_row, span.kv_len, width);
    AddAnswer(span, reference::MultiHeadAttention(layer, query_rows, memory_rows, options), width,
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
    AddAnswer(
        span,
        reference::Attention(
            extents, RowsOf(*input.query, span.first_row, span.query_len, num_heads * head_dim),
            RowsOf(*input.key, span.first_kv_row, span.kv_len, num_kv_heads * head_dim),
            RowsOf(*input.value, span.first_kv_row, span.kv_len, num_kv_heads * value_head_dim),
            options),
        num_heads * value_head_dim, expected);
  }
  return expected;
}

}  // namespace attention
