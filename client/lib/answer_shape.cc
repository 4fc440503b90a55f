#include "client/lib/answer_shape.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/lib/malformed_answer.h"
#include "client/lib/sequences.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using AnswerSpans = std::vector<SequenceSpan>;

absl::Status CheckNumber(absl::string_view what, int64_t expected, int64_t found) {
  return expected == found
             ? absl::OkStatus()
             : MalformedAnswer("number of ", what, ": expected ", expected, ", found ", found);
}

/// Checks that each sequence has a table of its rows, [heads, rows, columns...], if any is wanted.
absl::Status CheckTables(const char* kind, bool is_wanted, const AnswerSpans& spans, int64_t heads,
                         const Shape& columns, const std::vector<const Tensor*>& tables) {
  RETURN_IF_ERROR(CheckNumber(absl::StrCat("tables of ", kind), is_wanted ? std::ssize(spans) : 0,
                              std::ssize(tables)));
  for (size_t i = 0; i < tables.size(); ++i) {
    RETURN_IF_ERROR(CheckShape(kind, {heads, spans[i].query_len}, columns, tables[i]->shape()));
  }
  return absl::OkStatus();
}

/// Checks that the weights are those of the chosen layers and heads, sequence by sequence.
absl::Status CheckLayers(const v1::WeightsChoice& choice, int64_t num_sequences,
                         const std::vector<LayerWeights>& found) {
  const int64_t num_layers = choice.layers_size();
  RETURN_IF_ERROR(
      CheckNumber("tables of layer_weights", num_sequences * num_layers, std::ssize(found)));
  const int64_t num_heads = choice.heads().empty() ? kAnyExtent : choice.heads_size();
  for (int64_t i = 0; i < std::ssize(found); ++i) {
    const int64_t sequence = i / num_layers,
                  layer = choice.layers(static_cast<int>(i % num_layers));
    if (found[i].layer != layer || found[i].sequence != sequence) {
      return MalformedAnswer("layer_weights[", i, "]: expected layer ", layer, " of sequence ",
                             sequence, ", found layer ", found[i].layer, " of sequence ",
                             found[i].sequence);
    }
    RETURN_IF_ERROR(CheckShape("layer_weights", {num_heads, kAnyExtent}, {kAnyExtent},
                               found[i].weights.shape()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckShape(const char* what, const Shape& leading, const Shape& row,
                        const Shape& found) {
  Shape expected = leading;
  expected.insert(expected.end(), row.begin(), row.end());
  const auto is_alike = [](int64_t extent, int64_t other) {
    return extent == kAnyExtent || extent == other;
  };
  if (std::ranges::equal(expected, found, is_alike)) {
    return absl::OkStatus();
  }
  const auto text = [](std::string* out, int64_t extent) {
    absl::StrAppend(out, extent == kAnyExtent ? "any" : absl::StrCat(extent));
  };
  return MalformedAnswer(what, ": expected [", absl::StrJoin(expected, ", ", text), "], found ",
                         ShapeText(found));
}

int64_t QueryHeads(const AttendRequest& request) {
  const auto* input = std::get_if<QueryKeyValueInput>(&request.input);
  return input == nullptr ? kAnyExtent : input->query->shape().rbegin()[1];
}

AnswerRows AnswerRowsOf(const AttendRequest& request) {
  if (const auto* input = std::get_if<QueryKeyValueInput>(&request.input)) {
    return {input->query->dtype(), {QueryHeads(request), input->value->shape().back()}};
  }
  const auto* input = std::get_if<HiddenStatesInput>(&request.input);
  const bool are_logits =
      request.model_output == v1::LOGITS || request.model_output == v1::LAST_LOGITS;
  if (input == nullptr || are_logits) {
    return {};
  }
  const Tensor* const rows = input->tensor != nullptr ? input->tensor : input->memory;
  return rows == nullptr ? AnswerRows() : AnswerRows{rows->dtype(), {rows->shape().back()}};
}

absl::Status CheckAnswer(const AttendRequest& request, const AttendResult& result) {
  const absl::StatusOr<AnswerSpans> spans = SequencesOf(request, result.tokens);
  if (!spans.ok()) {
    return MalformedAnswer(spans.status().message());
  }
  const auto* input = std::get_if<TextInput>(&request.input);
  const v1::AttentionOptions& options = request.options;
  std::vector<const Tensor*> largest;
  for (const LargestWeights& top : result.top_weights) {
    largest.push_back(&top.weights);
  }
  RETURN_IF_ERROR(CheckNumber("lists of tokens", input == nullptr ? 0 : std::ssize(input->texts),
                              std::ssize(result.tokens)));
  RETURN_IF_ERROR(CheckShape("output", LeadingExtents(request, *spans), AnswerRowsOf(request).shape,
                             result.output.shape()));
  const int64_t heads = QueryHeads(request);
  RETURN_IF_ERROR(CheckTables("weights", options.return_weights(), *spans, heads, {kAnyExtent},
                              PointersTo(result.weights)));
  RETURN_IF_ERROR(CheckTables("log_sum_exp", options.return_log_sum_exp(), *spans, heads, {},
                              PointersTo(result.log_sum_exp)));
  RETURN_IF_ERROR(CheckTables("top_weights", options.weights_top_k() > 0, *spans, heads,
                              {kAnyExtent}, largest));
  return CheckLayers(request.weights_choice, std::ssize(*spans), result.layer_weights);
}

std::vector<const Tensor*> PointersTo(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) {
    pointers.push_back(&tensor);
  }
  return pointers;
}

}  // namespace attention
