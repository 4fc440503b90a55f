#include "client/cli/show/run_report.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/show/top_logits.h"
#include "client/lib/sequences.h"
#include "client/load/workload.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

constexpr int64_t kValuesPerRow = 4;
constexpr int64_t kMaxSequencesShown = 8;

std::string Line(const char* name, const std::string& value) {
  return absl::StrFormat("%-9s %s\n", name, value);
}

std::string Counted(int64_t count, const char* one, const char* many) {
  return absl::StrCat(count, " ", count == 1 ? one : many);
}

std::string TensorText(const Tensor& tensor) {
  return absl::StrCat(ShapeText(tensor.shape()), " ", std::string(Name(tensor.dtype())));
}

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

/// The first values of a row of the output.
std::string ValuesText(const Tensor& output, int64_t row, int64_t row_elements) {
  const int64_t shown = std::min(kValuesPerRow, row_elements);
  float values[kValuesPerRow] = {};
  Convert(output.dtype(), ElementAt(output.data(), output.dtype(), row * row_elements), Dtype::kF32,
          values, shown);
  std::string text;
  for (int64_t i = 0; i < shown; ++i) {
    absl::StrAppendFormat(&text, " %9.5f", values[i]);
  }
  return shown < row_elements ? text + "  ..." : text;
}

/// The first and last row of each sequence.
std::string OutputText(const AttendResult& result, const std::vector<SequenceSpan>& sequences,
                       int64_t total_rows) {
  const int64_t row_elements = total_rows == 0 ? 0 : result.output.num_elements() / total_rows;
  const int64_t shown = std::min<int64_t>(kMaxSequencesShown, std::ssize(sequences));
  std::string text;
  for (int64_t s = 0; s < shown; ++s) {
    const SequenceSpan& span = sequences[s];
    const int64_t last = span.output_rows - 1;
    for (const int64_t row :
         last > 0 ? std::vector<int64_t>{0, last} : std::vector<int64_t>(span.output_rows, 0)) {
      const std::string label = row == 0 ? absl::StrCat("sequence ", s) : "";
      absl::StrAppendFormat(&text, "  %-12s row %4d %s\n", label, row,
                            ValuesText(result.output, span.first_output_row + row, row_elements));
    }
  }
  if (shown < std::ssize(sequences)) {
    absl::StrAppend(&text, "  ... ", std::ssize(sequences) - shown, " more sequences\n");
  }
  return text;
}

/// Whether the server said where the time went, for which the Open Inference Protocol has no words.
bool HasAccount(const AttendResult& result) { return result.batch.requests > 0; }

std::string TimingsText(const AttendResult& result) {
  const Timings& timings = result.timings;
  const std::string total = absl::StrFormat("total %.3f ms", Milliseconds(timings.client_total));
  return HasAccount(result)
             ? absl::StrFormat("queue %.3f ms   compute %.3f ms   wire %.3f ms   %s",
                               Milliseconds(timings.queue), Milliseconds(timings.compute),
                               Milliseconds(timings.wire()), total)
             : total;
}

std::string BatchText(const AttendResult& result) {
  const BatchFacts& batch = result.batch;
  const std::string cached =
      result.cached_tokens == 0
          ? ""
          : absl::StrCat(", ", Counted(result.cached_tokens, "token", "tokens"), " cached before");
  return absl::StrCat(Counted(batch.requests, "request, ", "requests, "),
                      Counted(batch.sequences, "sequence, ", "sequences, "),
                      Counted(batch.tokens, "token", "tokens"), " computed together", cached);
}

std::string CheckText(const AnswerCheck& check) {
  std::string text = absl::StrFormat("%s with the double-precision reference: relative L2 %.1e",
                                     check.agreed() ? "agrees" : "DISAGREES", check.relative_l2);
  if (check.weights_relative_l2.has_value()) {
    absl::StrAppendFormat(&text, ", weights %.1e", *check.weights_relative_l2);
  }
  if (check.log_sum_exp_relative_l2.has_value()) {
    absl::StrAppendFormat(&text, ", log-sum-exp %.1e", *check.log_sum_exp_relative_l2);
  }
  if (check.top_weights_relative_l2.has_value()) {
    absl::StrAppendFormat(&text, ", largest weights %.1e", *check.top_weights_relative_l2);
  }
  return absl::StrFormat("%s (tolerance %.1e)", text, check.tolerance);
}

/// The shapes of log-sum-exp and of all weights.
std::string ScoresText(const AttendResult& result) {
  std::string text;
  for (const Tensor& sums : result.log_sum_exp) {
    text += Line("log-sum", TensorText(sums));
  }
  for (const Tensor& weights : result.weights) {
    text += Line("weights", TensorText(weights));
  }
  for (const LayerWeights& layer : result.layer_weights) {
    text += Line("weights", absl::StrCat(TensorText(layer.weights), " of layer ", layer.layer,
                                         " in sequence ", layer.sequence));
  }
  for (const LargestWeights& top : result.top_weights) {
    text += Line("weights", absl::StrCat(TensorText(top.weights), ", the largest"));
  }
  return text;
}

nlohmann::json CheckJson(const AnswerCheck& check) {
  nlohmann::json json = {{"agreed", check.agreed()},
                         {"relative_l2", check.relative_l2},
                         {"tolerance", check.tolerance}};
  const std::pair<const char*, std::optional<double>> more[] = {
      {"weights_relative_l2", check.weights_relative_l2},
      {"log_sum_exp_relative_l2", check.log_sum_exp_relative_l2},
      {"top_weights_relative_l2", check.top_weights_relative_l2}};
  for (const auto& [name, value] : more) {
    if (value.has_value()) {
      json[name] = *value;
    }
  }
  return json;
}

nlohmann::json TensorJson(const Tensor& tensor) {
  return {{"shape", tensor.shape()}, {"dtype", std::string(Name(tensor.dtype()))}};
}

/// Adds the parts of an answer that only models have.
void AddModelParts(const RunReport& report, nlohmann::json& json) {
  for (const LayerWeights& layer : report.result.layer_weights) {
    json["layer_weights"].push_back(
        {{"layer", layer.layer}, {"sequence", layer.sequence}, {"shape", layer.weights.shape()}});
  }
  for (const v1::TokenizedText& text : report.result.tokens) {
    json["tokens"].push_back(
        {{"ids", std::vector<int32_t>(text.ids().begin(), text.ids().end())},
         {"tokens", std::vector<std::string>(text.tokens().begin(), text.tokens().end())}});
  }
  const auto sequences = SequencesOf(report.request, report.result.tokens);
  const nlohmann::json next =
      sequences.ok() ? NextTokensJson(report.request, report.result, *sequences) : nlohmann::json();
  if (!next.empty()) {
    json["next_tokens"] = next;
  }
}

}  // namespace

std::string ToText(const BlockArrival& block) {
  return Line("block",
              absl::StrFormat("sequence %d   rows %5d to %5d   after %9.3f ms", block.sequence,
                              block.first_row, block.first_row + block.rows - 1,
                              Milliseconds(block.after)));
}

std::string ToText(const AttendRequest& request) {
  return Line("request",
              absl::StrCat(request.model, request.model.empty() ? "" : ", ", Describe(request),
                           !request.options.has_causal() ? ""
                           : request.options.causal()    ? ", causal"
                                                         : ", not causal"));
}

absl::StatusOr<std::string> ToText(const RunReport& report) {
  ASSIGN_OR_RETURN(const std::vector<SequenceSpan> sequences,
                   SequencesOf(report.request, report.result.tokens));
  const AttendResult& result = report.result;
  const int64_t total_rows = NumElements(LeadingExtents(report.request, sequences));
  return absl::StrCat(Line("output", TensorText(result.output)),
                      OutputText(result, sequences, total_rows),
                      NextTokensText(NextTokensJson(report.request, result, sequences)),
                      ScoresText(result), Line("timings", TimingsText(result)),
                      HasAccount(result) ? Line("batch", BatchText(result)) : "",
                      report.check.has_value() ? Line("verified", CheckText(*report.check)) : "");
}

nlohmann::json ToJson(const RunReport& report) {
  const Timings& timings = report.result.timings;
  const BatchFacts& batch = report.result.batch;
  nlohmann::json json = {{"server", report.server},
                         {"model", report.request.model},
                         {"request", Describe(report.request)},
                         {"output", TensorJson(report.result.output)},
                         {"timings_ms", {{"total", Milliseconds(timings.client_total)}}}};
  if (HasAccount(report.result)) {
    json["timings_ms"].update({{"queue", Milliseconds(timings.queue)},
                               {"compute", Milliseconds(timings.compute)},
                               {"server_total", Milliseconds(timings.server_total)},
                               {"wire", Milliseconds(timings.wire())}});
    json["batch"] = {{"id", batch.id},
                     {"requests", batch.requests},
                     {"sequences", batch.sequences},
                     {"tokens", batch.tokens}};
    json["cached_tokens"] = report.result.cached_tokens;
  }
  for (const Tensor& weights : report.result.weights) {
    json["weights"].push_back(TensorJson(weights));
  }
  for (const Tensor& sums : report.result.log_sum_exp) {
    json["log_sum_exp"].push_back(TensorJson(sums));
  }
  for (const LargestWeights& top : report.result.top_weights) {
    json["top_weights"].push_back(TensorJson(top.weights));
  }
  AddModelParts(report, json);
  for (const BlockArrival& block : report.blocks) {
    json["blocks"].push_back({{"sequence", block.sequence},
                              {"first_row", block.first_row},
                              {"rows", block.rows},
                              {"after_ms", Milliseconds(block.after)}});
  }
  if (report.check.has_value()) {
    json["verification"] = CheckJson(*report.check);
  }
  return json;
}

}  // namespace attention
