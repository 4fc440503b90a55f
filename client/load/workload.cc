#include "client/load/workload.h"

#include <google/protobuf/text_format.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/lib/sequences.h"
#include "core/runtime/counted.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {

namespace {

constexpr size_t kMaxShown = 8;
/// The characters of options that are shown: lists may be long.
constexpr size_t kMaxOptionsShown = 200;

std::string List(const std::vector<int64_t>& values) {
  const auto end = values.begin() + static_cast<int64_t>(std::min(kMaxShown, values.size()));
  return absl::StrCat(absl::StrJoin(values.begin(), end, ","), end == values.end() ? "" : ",...");
}

std::string Lengths(const char* name, const std::vector<int64_t>& lengths) {
  return lengths.empty() ? "" : absl::StrCat(", ", name, " ", List(lengths));
}

std::string DtypeName(const Tensor& tensor) { return std::string(Name(tensor.dtype())); }

struct Describer {
  std::string operator()(const HiddenStatesInput& input) const {
    std::string text;
    if (input.tensor != nullptr) {
      text = absl::StrCat("hidden states ", ShapeText(input.tensor->shape()), " ",
                          DtypeName(*input.tensor), Lengths("lengths", input.lengths));
    }
    if (input.memory != nullptr) {
      absl::StrAppend(&text, text.empty() ? "memory " : ", memory ",
                      ShapeText(input.memory->shape()),
                      Lengths("memory lengths", input.memory_lengths));
    }
    return text;
  }
  std::string operator()(const TextInput& input) const {
    return Counted(std::ssize(input.texts), "text");
  }
  std::string operator()(const TokenIdsInput& input) const {
    const std::vector<int64_t>& lengths = input.lengths;
    if (lengths.size() < 2) {
      return Counted(std::ssize(input.ids), "token");
    }
    const bool are_equal =
        std::count(lengths.begin(), lengths.end(), lengths[0]) == std::ssize(lengths);
    return absl::StrCat(lengths.size(), " sequences of ",
                        are_equal ? absl::StrCat(lengths[0]) : List(lengths), " tokens");
  }
  std::string operator()(const QueryKeyValueInput& input) const {
    return absl::StrCat("query ", ShapeText(input.query->shape()), " key ",
                        ShapeText(input.key->shape()), " value ", ShapeText(input.value->shape()),
                        " ", DtypeName(*input.query), Lengths("lengths", input.lengths),
                        Lengths("kv lengths", input.kv_lengths),
                        Lengths("query offsets", input.query_offsets));
  }
};

/// The part of the model that runs: ", layer 3", ", mean pooled, weights of layers 0,3"; empty for
/// the whole stack.
std::string DescribeRun(const AttendRequest& request) {
  std::string text;
  if (request.model_version.has_value()) {
    absl::StrAppend(&text, ", version ", *request.model_version);
  }
  if (request.layer.has_value()) {
    absl::StrAppend(&text, ", layer ", *request.layer);
  }
  if (request.model_output != v1::LAST_HIDDEN_STATES) {
    absl::StrAppend(&text, ", ",
                    WordsOf(absl::AsciiStrToLower(v1::ModelOutput_Name(request.model_output))));
  }
  const v1::WeightsChoice& choice = request.weights_choice;
  if (!choice.layers().empty()) {
    absl::StrAppend(&text, ", weights of layers ", absl::StrJoin(choice.layers(), ","));
  }
  if (!choice.heads().empty()) {
    absl::StrAppend(&text, ", heads ", absl::StrJoin(choice.heads(), ","));
  }
  return text;
}

std::string DescribeOptions(const AttendRequest& request) {
  v1::AttentionOptions options = request.options;
  options.clear_causal();
  options.clear_return_weights();
  options.clear_return_log_sum_exp();
  options.clear_weights_top_k();
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  if (printer.PrintToString(options, &text) && !text.empty()) {
    text = absl::StrCat(", ", absl::StripAsciiWhitespace(text).substr(0, kMaxOptionsShown),
                        text.size() > kMaxOptionsShown ? "..." : "");
  }
  if (request.options.has_causal()) {
    absl::StrAppend(&text, request.options.causal() ? ", causal" : ", not causal");
  }
  if (request.bias != nullptr) {
    absl::StrAppend(&text, ", bias ", ShapeText(request.bias->shape()));
  }
  if (request.mask != nullptr) {
    absl::StrAppend(&text, ", mask ", ShapeText(request.mask->shape));
  }
  return text;
}

}  // namespace

absl::StatusOr<int64_t> QueryRows(const AttendRequest& request, const AttendResult& answer) {
  ASSIGN_OR_RETURN(const std::vector<SequenceSpan> sequences, SequencesOf(request, answer.tokens));
  int64_t rows = 0;
  for (const SequenceSpan& sequence : sequences) {
    rows += sequence.query_len;
  }
  return rows;
}

std::string WordsOf(const std::string& field) { return absl::StrReplaceAll(field, {{"_", " "}}); }

std::string Describe(const AttendRequest& request) {
  return std::visit(Describer(), request.input) + DescribeRun(request) + DescribeOptions(request);
}

}  // namespace attention
