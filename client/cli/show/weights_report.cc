#include "client/cli/show/weights_report.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/show/attention_table.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

/// The weights of one sequence, and of which layer and heads they are.
struct Weights {
  int64_t sequence = 0;
  const Tensor& tensor;                 // [H, query_len, ...]
  const LargestWeights* top = nullptr;  // if `tensor` is only the largest weights
  std::vector<int64_t> heads = {};      // empty: all
  std::string layer = {};               // " of layer 3"

  int64_t num_heads() const { return tensor.shape()[0]; }
};

/// Labels for the tokens of a sequence; none if the request has no tokens.
std::vector<std::string> LabelsOf(const AttendRequest& request, const AttendResult& result,
                                  int64_t sequence, const SequenceSpan& span) {
  std::vector<std::string> labels;
  if (sequence < std::ssize(result.tokens)) {
    for (const std::string& token : result.tokens[sequence].tokens()) {
      labels.push_back(QuotedToken(token));
    }
  } else if (const auto* input = std::get_if<TokenIdsInput>(&request.input)) {
    for (const int32_t id : std::span(input->ids).subspan(span.first_row, span.query_len)) {
      labels.push_back(absl::StrCat("(", id, ")"));
    }
  }
  return labels;
}

/// The index of `head` in the weights; absent for the mean of all heads.
absl::StatusOr<std::optional<int64_t>> HeadIndex(std::optional<int64_t> head,
                                                 const Weights& weights) {
  if (head.has_value() && !weights.heads.empty()) {
    const auto found = std::find(weights.heads.begin(), weights.heads.end(), *head);
    if (found == weights.heads.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--head: expected one of ", absl::StrJoin(weights.heads, ","), ", found ", *head));
    }
    return found - weights.heads.begin();
  }
  if (head.has_value() && (*head < 0 || *head >= std::max<int64_t>(1, weights.num_heads()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--head: expected 0 to ", weights.num_heads() - 1, ", found ", *head));
  }
  return head;
}

std::string HeadsText(std::optional<int64_t> head, const Weights& weights) {
  if (weights.top != nullptr) {
    return absl::StrCat("head ", head.value_or(0), " of ", weights.num_heads());
  }
  if (head.has_value() || weights.heads.size() == 1) {
    return absl::StrCat("head ", head.has_value() ? *head : weights.heads[0]);
  }
  return absl::StrCat("mean of ", weights.num_heads(),
                      weights.num_heads() == 1 ? " head" : " heads",
                      weights.heads.empty() ? "" : ": ", absl::StrJoin(weights.heads, ","));
}

}  // namespace

absl::StatusOr<std::string> WeightsText(const AttendRequest& request, const AttendResult& result,
                                        std::span<const SequenceSpan> sequences,
                                        const ShownWeights& shown) {
  std::vector<Weights> tables;
  for (const Tensor& tensor : result.weights) {
    tables.push_back({std::ssize(tables), tensor});
  }
  const auto& heads = request.weights_choice.heads();
  for (const LayerWeights& layer : result.layer_weights) {
    tables.push_back({.sequence = layer.sequence,
                      .tensor = layer.weights,
                      .heads = {heads.begin(), heads.end()},
                      .layer = absl::StrCat(" of layer ", layer.layer)});
  }
  for (int64_t s = 0; s < std::ssize(result.top_weights); ++s) {
    tables.push_back({s, result.top_weights[s].weights, &result.top_weights[s]});
  }
  std::string text;
  for (const Weights& weights : tables) {
    const Shape& shape = weights.tensor.shape();
    if (shape.size() != 3 || weights.sequence < 0 || weights.sequence >= std::ssize(sequences)) {
      return absl::InvalidArgumentError(absl::StrCat("weights of sequence ", weights.sequence,
                                                     ": found ", ShapeText(shape), " ",
                                                     std::string(Name(weights.tensor.dtype()))));
    }
    const std::vector<std::string> labels =
        LabelsOf(request, result, weights.sequence, sequences[weights.sequence]);
    AttentionTableOptions options{.max_rows = shown.all_rows ? shape[1] : 16, .tokens = labels};
    ASSIGN_OR_RETURN(options.head, HeadIndex(shown.head, weights));
    absl::StrAppend(&text, "\n", weights.top != nullptr ? "largest weights" : "attention",
                    weights.layer, " in sequence ", weights.sequence, ", ",
                    HeadsText(shown.head, weights), ": row ", labels.empty() ? "" : "(token) ",
                    "-> the rows it attends to most\n",
                    weights.top != nullptr ? TopWeightsTable(*weights.top, options)
                                           : AttentionTable(weights.tensor, options));
  }
  return text;
}

}  // namespace attention
