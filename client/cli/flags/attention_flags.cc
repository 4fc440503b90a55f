#include "client/cli/flags/attention_flags.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/flags/help_group.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

// The limit of POSITIONS in --rotary-scaling, up to which a double is exact.
constexpr double kMaxPositions = 1e15;

/// Parses "N", or "N;;N": one number for each sequence, or none if it has no own.
absl::StatusOr<std::vector<std::vector<int64_t>>> ParseCounts(const std::string& text) {
  ASSIGN_OR_RETURN(std::vector<std::vector<int64_t>> lists, ParseLists(text));
  for (const std::vector<int64_t>& list : lists) {
    if (list.size() > 1 || (list.empty() && lists.size() == 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\": expected N, or N;N for different sequences"));
    }
  }
  return lists;
}

absl::StatusOr<std::vector<double>> ParseAlibi(const std::string& text) {
  return text == kStandardAlibi ? std::vector<double>() : ParseNumbers(text);
}

void AddSimilarityFlags(CLI::App& command, v1::AttentionOptions& options) {
  HelpGroup group(command, "How to attend");
  static constexpr char kSimilarities[] = "dot_product|gaussian|box|triangular|linear";
  group.SwitchSetter(
      "--causal,!--no-causal", [&options](bool on) { options.set_causal(on); },
      "Attend only to keys up to the row's own position; default: as the model does");
  group.Setter<double>(
      "--scale", [&options](double x) { options.set_scale(x); }, "X",
      "Factor of query . key; default 1 / sqrt(D)");
  group
      .Setter<std::string>(
          "--similarity",
          [&options](const std::string& name) {
            v1::Similarity similarity = v1::DOT_PRODUCT;
            if (v1::Similarity_Parse(absl::AsciiStrToUpper(name), &similarity)) {
              options.set_similarity(similarity);
            }
          },
          kSimilarities, "Softmax of products, kernel regression by distance, or linear attention")
      ->check(HelpGroup::OneOf(kSimilarities));
  group.Setter<double>(
      "--bandwidth", [&options](double x) { options.set_bandwidth(x); }, "X",
      "Width of the kernels gaussian, box and triangular");
}

void AddVisibilityFlags(CLI::App& command, AttentionFlags& flags) {
  HelpGroup group(command, "Which keys a row attends to (N;N: a value for each sequence)");
  const auto add = [&group](const char* name, std::string& target, const char* type,
                            const char* help) {
    group.Value(name, target, type, help)->check(Accepts(ParseCounts));
  };
  add("--causal-each", flags.causal_each, "1;0",
      "For each sequence: 1 is causal, 0 is not, empty is as --causal says");
  const auto add_number = [&](const std::string& field, const char* help) {
    group
        .Setter<std::string>(
            "--" + absl::StrReplaceAll(field, {{"_", "-"}}),
            [&flags, field](const std::string& text) { flags.visibility_numbers[field] = text; },
            "N", help)
        ->check(Accepts(ParseCounts));
  };
  add_number("window", "The last N keys up to the row's own position");
  add_number("window_right", "Up to N keys after the row's own position");
  add_number("window_dilation",
             "Only every N-th key of the window, counted from the row's own position");
  add_number("prefix", "Always attend to the first N keys");
  group
      .Value("--global-tokens", flags.global_tokens, "N,N",
             "Positions that attend to all keys, and to which all rows attend")
      ->check(Accepts(ParseLists));
  group.Value("--mask", flags.mask, "TENSOR", "[1 or B, 1 or H, Sq, Sk]: 0 hides a key");
}

void AddLogitFlags(CLI::App& command, AttentionFlags& flags) {
  HelpGroup group(command, "Logits");
  group.Setter<double>(
      "--softcap", [&flags](double x) { flags.options.set_softcap(x); }, "X",
      "A logit x becomes X * tanh(x / X)");
  group
      .Value("--alibi", flags.alibi, "standard|X,X",
             "Slopes of ALiBi: 2^(-8 i / H), or one for each head")
      ->check(Accepts(ParseAlibi));
  group
      .Value("--sinks", flags.sinks, "X,X",
             "One more logit for each head, which counts only in the denominator")
      ->check(Accepts(ParseNumbers));
  group.Value("--bias", flags.bias, "TENSOR", "[1 or B, 1 or H, Sq, Sk], added to the logits");
}

void AddRowFlags(CLI::App& command, AttentionFlags& flags) {
  HelpGroup group(command, "Rows of query and key");
  const auto rotary = [&flags]() -> v1::Rotary& { return *flags.options.mutable_rotary(); };
  group.SwitchSetter(
      "--rotary", [rotary](bool) { rotary(); },
      "Rotary position embedding; each --rotary-... implies it");
  group.Setter<double>(
      "--rotary-base", [rotary](double x) { rotary().set_base(x); }, "X",
      "Base of the rotation's frequencies; default 10000");
  group.Setter<int64_t>(
      "--rotary-dim", [rotary](int64_t n) { rotary().set_dim(n); }, "N",
      "Rotate the first N elements of a head; default all");
  group.SwitchSetter(
      "--rotary-interleaved", [rotary](bool on) { rotary().set_interleaved(on); },
      "Pairs are (2i, 2i + 1) instead of (i, i + N / 2)");
  group
      .Value("--rotary-scaling", flags.rotary_scaling, "KIND",
             "linear:FACTOR or llama3:FACTOR,LOW,HIGH,POSITIONS")
      ->check(Accepts(ParseRotaryScaling));
  group.Setter<int64_t>(
      "--rotary-offset", [rotary](int64_t n) { rotary().set_position_offset(n); }, "N",
      "Added to all positions");
  group.Value("--query-norm", flags.query_norm, "ones|TENSOR",
              "RMS norm of query rows: weights [D]");
  group.Value("--key-norm", flags.key_norm, "ones|TENSOR", "RMS norm of key rows: weights [D]");
  group.Value("--norm-epsilon", flags.norm_epsilon, "X", "Epsilon of both norms; default 1e-6");
}

}  // namespace

bool AttentionFlags::is_given() const {
  const std::string* const texts[] = {&causal_each, &global_tokens, &alibi, &sinks, &rotary_scaling,
                                      &query_norm,  &key_norm,      &bias,  &mask};
  return options.ByteSizeLong() > 0 || norm_epsilon.has_value() ||
         std::any_of(visibility_numbers.begin(), visibility_numbers.end(),
                     [](const auto& number) { return !number.second.empty(); }) ||
         std::any_of(std::begin(texts), std::end(texts),
                     [](const std::string* text) { return !text->empty(); });
}

void AddAttentionFlags(CLI::App& command, AttentionFlags& flags) {
  AddSimilarityFlags(command, flags.options);
  AddVisibilityFlags(command, flags);
  AddLogitFlags(command, flags);
  AddRowFlags(command, flags);
}

absl::StatusOr<v1::Rotary> ParseRotaryScaling(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const absl::StatusOr<std::vector<double>> numbers =
      ParseNumbers(colon == std::string::npos ? "" : text.substr(colon + 1));
  const bool is_linear = kind == "linear";
  const bool is_known = is_linear || kind == "llama3";
  if (!is_known || !numbers.ok() || (numbers->size() != 1 && (is_linear || numbers->size() != 4)) ||
      !(std::abs(numbers->back()) < kMaxPositions)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\": expected linear:FACTOR or llama3:FACTOR[,LOW,HIGH,POSITIONS]"));
  }
  v1::Rotary rotary;
  rotary.set_scaling(is_linear ? v1::Rotary::LINEAR : v1::Rotary::LLAMA3);
  rotary.set_factor((*numbers)[0]);
  if (numbers->size() == 4) {
    rotary.set_low_freq_factor((*numbers)[1]);
    rotary.set_high_freq_factor((*numbers)[2]);
    rotary.set_original_max_positions(static_cast<int64_t>((*numbers)[3]));
  }
  return rotary;
}

}  // namespace attention
