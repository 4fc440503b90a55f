#include "client/cli/show/weights_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/show/attention_table.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

/// How the tokens of a sequence are shown; none when it has none.
std::vector<std::string> LabelsOf(const RunReport& report, size_t sequence,
                                  const SequenceSpan& span) {
  std::vector<std::string> labels;
  if (sequence < report.result.tokens.size()) {
    for (const std::string& token : report.result.tokens[sequence].tokens()) {
      labels.push_back(QuotedToken(token));
    }
  } else if (const auto* input = std::get_if<TokenIdsInput>(&report.request.input)) {
    for (const int32_t id : std::span(input->ids).subspan(span.first_row, span.query_len)) {
      labels.push_back(absl::StrCat("(", id, ")"));
    }
  }
  return labels;
}

/// The weights of one sequence, and of which layer and heads they are.
struct Weights {
  size_t sequence = 0;
  const Tensor& tensor;             // [H, query_len, ...]
  std::vector<int64_t> heads = {};  // empty: all
  std::string layer = {};           // " of layer 3"
};

/// The index of the head that is shown; none: all of them.
absl::StatusOr<std::optional<int64_t>> HeadIndex(const RunReport& report, const Weights& weights) {
  if (!report.head.has_value()) {
    return std::optional<int64_t>();
  }
  if (!weights.heads.empty()) {
    const auto found = std::find(weights.heads.begin(), weights.heads.end(), *report.head);
    if (found == weights.heads.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--head: expected one of ", absl::StrJoin(weights.heads, ","), ", found ", *report.head));
    }
    return std::optional<int64_t>(found - weights.heads.begin());
  }
  const int64_t num_heads = weights.tensor.shape()[0];
  if (*report.head < 0 || *report.head >= std::max<int64_t>(1, num_heads)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--head: expected 0 to ", num_heads - 1, ", found ", *report.head));
  }
  return report.head;
}

std::string HeadsText(const RunReport& report, const Weights& weights) {
  const int64_t num_heads = weights.tensor.shape()[0];
  if (report.head.has_value()) {
    return absl::StrCat("head ", *report.head);
  }
  if (weights.heads.size() == 1) {
    return absl::StrCat("head ", weights.heads[0]);
  }
  return absl::StrCat("mean of ", num_heads, num_heads == 1 ? " head" : " heads",
                      weights.heads.empty() ? "" : ": ", absl::StrJoin(weights.heads, ","));
}

std::string TitleOf(const char* what, const Weights& weights, const std::string& heads,
                    bool has_tokens) {
  return absl::StrCat("\n", what, weights.layer, " in sequence ", weights.sequence, ", ", heads,
                      has_tokens ? ": row (token) -> the rows it attends to most\n"
                                 : ": row -> the rows it attends to most\n");
}

/// Calls `table` with how it is to look, below the title. An error when the answer has no such
/// sequence or head.
template <typename Table>
absl::StatusOr<std::string> Titled(const RunReport& report, const Weights& weights,
                                   std::span<const SequenceSpan> sequences, const Table& table) {
  const Shape& shape = weights.tensor.shape();
  if (shape.size() != 3 || weights.sequence >= sequences.size()) {
    return absl::InvalidArgumentError(absl::StrCat("weights of sequence ", weights.sequence,
                                                   ": found ", ShapeText(shape), " ",
                                                   std::string(Name(weights.tensor.dtype()))));
  }
  const std::vector<std::string> labels =
      LabelsOf(report, weights.sequence, sequences[weights.sequence]);
  AttentionTableOptions options{.max_rows = report.all_rows ? shape[1] : 16, .tokens = labels};
  ASSIGN_OR_RETURN(options.head, HeadIndex(report, weights));
  return table(options);
}

absl::StatusOr<std::string> TableOf(const RunReport& report, const Weights& weights,
                                    std::span<const SequenceSpan> sequences) {
  return Titled(report, weights, sequences, [&](const AttentionTableOptions& options) {
    return absl::StrCat(
        TitleOf("attention", weights, HeadsText(report, weights), !options.tokens.empty()),
        AttentionTable(weights.tensor, options));
  });
}

}  // namespace

absl::StatusOr<std::string> WeightsText(const RunReport& report,
                                        std::span<const SequenceSpan> sequences) {
  const AttendResult& result = report.result;
  std::string text;
  for (size_t s = 0; s < result.weights.size(); ++s) {
    ASSIGN_OR_RETURN(const std::string table, TableOf(report, {s, result.weights[s]}, sequences));
    text += table;
  }
  for (const LayerWeights& layer : result.layer_weights) {
    const auto& heads = report.request.weights_choice.heads();
    const Weights weights = {static_cast<size_t>(layer.sequence),
                             layer.weights,
                             {heads.begin(), heads.end()},
                             absl::StrCat(" of layer ", layer.layer)};
    ASSIGN_OR_RETURN(const std::string table, TableOf(report, weights, sequences));
    text += table;
  }
  for (size_t s = 0; s < result.top_weights.size(); ++s) {
    const LargestWeights& top = result.top_weights[s];
    const Weights weights = {s, top.weights};
    ASSIGN_OR_RETURN(const std::string table,
                     Titled(report, weights, sequences, [&](const AttentionTableOptions& options) {
                       const std::string heads = absl::StrCat("head ", options.head.value_or(0),
                                                              " of ", top.weights.shape()[0]);
                       return TitleOf("largest weights", weights, heads, !options.tokens.empty()) +
                              TopWeightsTable(top, options);
                     }));
    text += table;
  }
  return text;
}

}  // namespace attention
