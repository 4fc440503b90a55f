#include "client/load/describe_options.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proto/codec/tensor.h"

namespace attention {
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
  AppendNumber("window", part.window(), text);
  AppendNumber("right window", part.window_right(), text);
  AppendNumber("prefix", part.prefix(), text);
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
    absl::StrAppend(
        &text, ", ",
        absl::StrReplaceAll(absl::AsciiStrToLower(v1::ModelOutput_Name(request.model_output)),
                            {{"_", " "}}));
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
