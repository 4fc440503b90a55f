#include "client/load/workload.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/lib/sequences.h"
#include "core/reference/reference.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {

namespace {

constexpr size_t kMaxShown = 8;

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
    return absl::StrCat(input.texts.size(), input.texts.size() == 1 ? " text" : " texts");
  }
  std::string operator()(const TokenIdsInput& input) const {
    const std::vector<int64_t>& lengths = input.lengths;
    if (lengths.size() < 2) {
      return absl::StrCat(input.ids.size(), " tokens");
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

namespace {

template <typename Number>
void AppendNumber(const char* name, Number value, std::string& text) {
  if (value != 0) {
    absl::StrAppend(&text, ", ", name, " ", value);
  }
}

void AppendRows(const v1::AttentionOptions& options, std::string& text) {
  absl::StrAppend(&text, options.has_query_norm() ? ", query norm" : "",
                  options.has_key_norm() ? ", key norm" : "",
                  options.has_rotary() ? ", rotary" : "");
  if (options.rotary().scaling() != v1::Rotary::NONE) {
    absl::StrAppend(&text, " scaled by ", options.rotary().factor());
  }
}

// `part` is the request's options, or one of its sequences.
template <typename Part>
void AppendVisibility(const Part& part, std::string& text) {
  for (const reference::VisibilityNumber& number : reference::kVisibilityNumbers) {
    const auto* const field = Part::descriptor()->FindFieldByName(number.name);
    AppendNumber(WordsOf(number.name).c_str(), part.GetReflection()->GetInt64(part, field), text);
  }
  if (!part.global_tokens().empty()) {
    absl::StrAppend(&text, ", global tokens ", absl::StrJoin(part.global_tokens(), ","));
  }
}

}  // namespace

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
  const v1::AttentionOptions& options = request.options;
  std::string text;
  if (options.similarity() != v1::DOT_PRODUCT) {
    absl::StrAppend(&text, ", ", absl::AsciiStrToLower(v1::Similarity_Name(options.similarity())));
  }
  AppendNumber("bandwidth", options.bandwidth(), text);
  AppendNumber("scale", options.scale(), text);
  AppendNumber("softcap", options.softcap(), text);
  AppendVisibility(options, text);
  for (int i = 0; i < options.sequences_size(); ++i) {
    std::string own;
    AppendVisibility(options.sequences(i), own);
    absl::StrAppend(&text, own.empty() ? "" : absl::StrCat(", in sequence ", i, own.substr(1)));
  }
  absl::StrAppend(&text, options.alibi_slopes().empty() ? "" : ", ALiBi",
                  options.sinks().empty() ? "" : ", sinks");
  AppendRows(options, text);
  if (request.bias != nullptr) {
    absl::StrAppend(&text, ", bias ", ShapeText(request.bias->shape()));
  }
  if (request.mask != nullptr) {
    absl::StrAppend(&text, ", mask ", ShapeText(request.mask->shape));
  }
  return text;
}

}  // namespace attention
