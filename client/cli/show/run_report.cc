#include "client/cli/show/run_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/load/workload.h"
#include "client/plot/picture.h"
#include "client/plot/token_text.h"
#include "core/runtime/counted.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

constexpr int64_t kValuesPerRow = 4;
constexpr int64_t kMaxSequencesShown = 8;
constexpr int64_t kMaxRowsShown = 12;
constexpr int64_t kShownLogits = 5;

std::string Line(const char* name, const std::string& value) {
  return absl::StrFormat("%-9s %s\n", name, value);
}

std::string TensorText(const Tensor& tensor) {
  return absl::StrCat(ShapeText(tensor.shape()), " ", std::string(Name(tensor.dtype())));
}

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }
double Milliseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

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

/// Whether the answer has a summary; those of the Open Inference Protocol have none.
bool HasSummary(const AttendResult& result) { return result.summary.batch_requests() > 0; }

/// Returns the milliseconds of transport, encoding and decoding.
double WireMs(const AttendResult& result) {
  return Milliseconds(result.client_total) - Milliseconds(result.summary.total_ns());
}

std::string TimingsText(const AttendResult& result) {
  const std::string total = absl::StrFormat("total %.3f ms", Milliseconds(result.client_total));
  return HasSummary(result)
             ? absl::StrFormat("queue %.3f ms   compute %.3f ms   wire %.3f ms   %s",
                               Milliseconds(result.summary.queue_ns()),
                               Milliseconds(result.summary.compute_ns()), WireMs(result), total)
             : total;
}

std::string BatchText(const v1::Summary& summary) {
  const int64_t cached_tokens = summary.cached_tokens();
  const std::string cached =
      cached_tokens == 0 ? ""
                         : absl::StrCat(", ", Counted(cached_tokens, "token"), " cached before");
  return absl::StrCat(Counted(summary.batch_requests(), "request"), ", ",
                      Counted(summary.batch_sequences(), "sequence"), ", ",
                      Counted(summary.batch_tokens(), "token"), " computed together", cached);
}

std::string CheckText(const AnswerCheck& check) {
  std::string text = absl::StrFormat("%s with the double-precision reference: relative L2 %.1e",
                                     check.agreed() ? "agrees" : "DISAGREES", check.relative_l2);
  for (const auto& [name, relative_l2] : check.others_relative_l2) {
    absl::StrAppendFormat(&text, ", %s %.1e", absl::StrReplaceAll(name, {{"_", "-"}}), relative_l2);
  }
  if (check.num_not_finite > 0) {
    absl::StrAppend(&text, ", ", check.num_not_finite,
                    " values that are NaN or infinite not compared");
  }
  const bool differ =
      !check.others_relative_l2.empty() && check.others_tolerance != check.tolerance;
  return absl::StrFormat(
      "%s (tolerance %.1e%s)", text, check.tolerance,
      differ ? absl::StrFormat(", of the others %.1e", check.others_tolerance) : "");
}

/// A row or key: its number, and its token if it has one.
std::string PositionText(int64_t position, const std::vector<std::string>& tokens) {
  return absl::StrCat(position,
                      position < std::ssize(tokens) ? absl::StrCat(" ", tokens[position]) : "");
}

/// The largest weights of the first rows of the first head. `tokens` are empty, or those of the
/// rows and keys.
std::string TopWeightsText(const LargestWeights& top, const std::vector<std::string>& tokens) {
  const Shape& shape = top.weights.shape();
  const int64_t heads = shape[0], rows = shape[1], k = shape[2];
  const int64_t shown = heads == 0 ? 0 : std::min(kMaxRowsShown, rows);
  std::string text;
  for (int64_t row = 0; row < shown; ++row) {
    absl::StrAppend(&text, "  head 0  row ", PositionText(row, tokens), "  attends to ",
                    k == 0 || top.keys[row * k] < 0 ? "no key" : "key");
    for (int64_t i = row * k; i < (row + 1) * k && top.keys[i] >= 0; ++i) {
      absl::StrAppend(&text, i > row * k ? ", " : " ", PositionText(top.keys[i], tokens), " ",
                      PercentText(top.weights.as<float>()[i]));
    }
    text += "\n";
  }
  if (shown < rows || heads > 1) {
    absl::StrAppend(&text, "  ... of ", Counted(rows, "row"), " and ", Counted(heads, "head"),
                    "; --json and --output have all\n");
  }
  return text;
}

std::vector<std::string> ShownTokens(const AttendResult& result, size_t sequence) {
  std::vector<std::string> tokens;
  if (sequence < result.tokens.size()) {
    for (const std::string& token : result.tokens[sequence].tokens()) {
      tokens.push_back(ShownToken(token));
    }
  }
  return tokens;
}

/// The shapes of log-sum-exp and of all weights, and the largest weights of some rows.
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
  for (size_t s = 0; s < result.top_weights.size(); ++s) {
    text += Line("weights", absl::StrCat(TensorText(result.top_weights[s].weights),
                                         ", the largest of sequence ", s));
    if (s < kMaxSequencesShown) {
      text += TopWeightsText(result.top_weights[s], ShownTokens(result, s));
    }
  }
  return text;
}

nlohmann::json CheckJson(const AnswerCheck& check) {
  nlohmann::json json = {{"agreed", check.agreed()},
                         {"relative_l2", check.relative_l2},
                         {"tolerance", check.tolerance},
                         {"others_tolerance", check.others_tolerance},
                         {"not_finite", check.num_not_finite}};
  for (const auto& [name, relative_l2] : check.others_relative_l2) {
    json[name + "_relative_l2"] = relative_l2;
  }
  return json;
}

nlohmann::json TensorJson(const Tensor& tensor) {
  return {{"shape", tensor.shape()}, {"dtype", std::string(Name(tensor.dtype()))}};
}

/// Returns the values as lists in lists, which have the extents `shape`.
template <typename Value>
nlohmann::json NestedJson(const Value* values, std::span<const int64_t> shape) {
  if (shape.empty()) {
    return *values;
  }
  const int64_t step = NumElements({shape.begin() + 1, shape.end()});
  nlohmann::json list = nlohmann::json::array();
  for (int64_t i = 0; i < shape[0]; ++i) {
    list.push_back(NestedJson(values + i * step, shape.subspan(1)));
  }
  return list;
}

std::map<int64_t, std::string> KnownTokens(const AttendResult& result) {
  std::map<int64_t, std::string> known;
  for (const v1::TokenizedText& text : result.tokens) {
    for (int i = 0; i < text.ids_size(); ++i) {
      known[text.ids(i)] = text.tokens(i);
    }
  }
  return known;
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

std::vector<TopLogit> TopLogits(std::span<const float> logits) {
  std::vector<TopLogit> all;
  for (const float logit : logits) {
    all.push_back({std::ssize(all), logit});
  }
  const auto end = all.begin() + std::min(kShownLogits, std::ssize(all));
  std::partial_sort(all.begin(), end, all.end(), [](const TopLogit& a, const TopLogit& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  all.erase(end, all.end());
  return all;
}

nlohmann::json NextTokensJson(const AttendRequest& request, const AttendResult& result,
                              std::span<const SequenceSpan> sequences) {
  nlohmann::json json = nlohmann::json::array();
  if (request.model_output != v1::LOGITS && request.model_output != v1::LAST_LOGITS) {
    return json;
  }
  const std::map<int64_t, std::string> known = KnownTokens(result);
  const Tensor logits = result.output.ConvertedTo(Dtype::kF32);
  const int64_t width = logits.shape().empty() ? 0 : logits.shape().back();
  for (int64_t i = 0; i < std::ssize(sequences); ++i) {
    const int64_t end = (sequences[i].first_output_row + sequences[i].output_rows) * width;
    if (sequences[i].output_rows == 0 || end > logits.num_elements()) {
      continue;
    }
    nlohmann::json top = nlohmann::json::array();
    for (const auto& [id, logit] :
         TopLogits({logits.as<float>() + end - width, static_cast<size_t>(width)})) {
      nlohmann::json& entry = top.emplace_back(nlohmann::json{{"id", id}, {"logit", logit}});
      if (const auto token = known.find(id); token != known.end()) {
        entry["token"] = token->second;
      }
    }
    json.push_back({{"sequence", i}, {"top", std::move(top)}});
  }
  return json;
}

std::string NextTokensText(const nlohmann::json& next_tokens) {
  std::string text;
  for (const nlohmann::json& next : next_tokens) {
    absl::StrAppend(&text, "next      after sequence ", next["sequence"].get<int64_t>(), ":");
    for (const nlohmann::json& entry : next["top"]) {
      const std::string token = entry.value("token", "");
      absl::StrAppendFormat(&text, "   %d%s %.4f", entry["id"].get<int64_t>(),
                            token.empty() ? "" : absl::StrCat(" ", ShownToken(token)),
                            entry["logit"].get<double>());
    }
    text.push_back('\n');
  }
  return text;
}

std::string ToText(const BlockArrival& block) {
  return Line("block",
              absl::StrFormat("sequence %d   rows %5d to %5d   after %9.3f ms", block.sequence,
                              block.first_row, block.first_row + block.rows - 1,
                              Milliseconds(block.after)));
}

std::string ToText(const AttendRequest& request) {
  return Line("request",
              absl::StrCat(request.model, request.model.empty() ? "" : ", ", Describe(request)));
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
                      HasSummary(result) ? Line("batch", BatchText(result.summary)) : "",
                      report.check.has_value() ? Line("verified", CheckText(*report.check)) : "");
}

nlohmann::json ToJson(const RunReport& report) {
  const v1::Summary& summary = report.result.summary;
  nlohmann::json json = {{"server", report.server},
                         {"model", report.request.model},
                         {"request", Describe(report.request)},
                         {"output", TensorJson(report.result.output)},
                         {"timings_ms", {{"total", Milliseconds(report.result.client_total)}}}};
  if (HasSummary(report.result)) {
    json["timings_ms"].update({{"queue", Milliseconds(summary.queue_ns())},
                               {"compute", Milliseconds(summary.compute_ns())},
                               {"server_total", Milliseconds(summary.total_ns())},
                               {"wire", WireMs(report.result)}});
    json["batch"] = {{"id", summary.batch_id()},
                     {"requests", summary.batch_requests()},
                     {"sequences", summary.batch_sequences()},
                     {"tokens", summary.batch_tokens()}};
    json["cached_tokens"] = summary.cached_tokens();
  }
  for (const Tensor& weights : report.result.weights) {
    json["weights"].push_back(TensorJson(weights));
  }
  for (const Tensor& sums : report.result.log_sum_exp) {
    json["log_sum_exp"].push_back(TensorJson(sums));
    json["log_sum_exp"].back()["values"] = NestedJson(sums.as<float>(), sums.shape());
  }
  for (const LargestWeights& top : report.result.top_weights) {
    json["top_weights"].push_back(TensorJson(top.weights));
    nlohmann::json& added = json["top_weights"].back();
    added["values"] = NestedJson(top.weights.as<float>(), top.weights.shape());
    added["keys"] = NestedJson(top.keys.data(), top.weights.shape());
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
