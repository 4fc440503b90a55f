#include "client/cli/attention_flags.h"

#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/accepts.h"
#include "client/cli/shape_text.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

// Of --rotary-scaling: a double holds them exactly.
constexpr double kMaxPositions = 1e15;

/// One whole number for each sequence, or none where nothing is between the ';'.
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

/// Adds flags of one group.
class Group {
 public:
  Group(CLI::App& command, const char* name) : command_(command), name_(name) {}

  CLI::Option* Text(const char* flag, std::string& target, const char* type, const char* help) {
    return command_.add_option(flag, target, help)->type_name(type)->group(name_);
  }
  /// A number that goes straight to where `set` puts it.
  template <typename Number, typename Set>
  void Value(const char* flag, Set set, const char* type, const char* help) {
    command_.add_option_function<Number>(
                flag, [set](const Number& value) { set(value); }, help)
        ->type_name(type)
        ->group(name_);
  }
  template <typename Set>
  void Switch(const char* flag, Set set, const char* help) {
    command_.add_flag_function(flag, [set](int64_t count) { set(count > 0); }, help)->group(name_);
  }

 private:
  CLI::App& command_;
  const char* const name_;
};

void AddSimilarityFlags(CLI::App& command, v1::AttentionOptions& options) {
  Group group(command, "How to attend");
  group.Switch(
      "--causal,!--no-causal", [&options](bool on) { options.set_causal(on); },
      "Whether rows see only keys up to their own position; default: the model's way");
  group.Value<double>(
      "--scale", [&options](double x) { options.set_scale(x); }, "X",
      "Factor of query . key; default 1 / sqrt(D)");
  command
      .add_option_function<std::string>(
          "--similarity",
          [&options](const std::string& name) {
            v1::Similarity similarity = v1::DOT_PRODUCT;
            v1::Similarity_Parse(absl::AsciiStrToUpper(name), &similarity);
            options.set_similarity(similarity);
          },
          "Softmax of products, kernel regression by distance, or linear attention")
      ->type_name("dot_product|gaussian|box|triangular|linear")
      ->check(
          CLI::IsMember({"dot_product", "gaussian", "box", "triangular", "linear"}).description(""))
      ->group("How to attend");
  group.Value<double>(
      "--bandwidth", [&options](double x) { options.set_bandwidth(x); }, "X",
      "Width of gaussian, box and triangular");
}

void AddVisibilityFlags(CLI::App& command, AttentionFlags& flags) {
  Group group(command, "Which keys a row sees (N;N: of different sequences)");
  group
      .Text("--causal-each", flags.causal_each, "1;0",
            "1: causal, 0: not, for different sequences; nothing: as --causal")
      ->check(Accepts(ParseCounts));
  group.Text("--window", flags.window, "N", "N keys that end with the row's own position")
      ->check(Accepts(ParseCounts));
  group.Text("--window-right", flags.window_right, "N", "N keys beyond the row's own position")
      ->check(Accepts(ParseCounts));
  group.Text("--prefix", flags.prefix, "N", "The first N keys, whatever else holds")
      ->check(Accepts(ParseCounts));
  group
      .Text("--global-tokens", flags.global_tokens, "N,N",
            "Positions that see all keys and are seen by all rows")
      ->check(Accepts(ParseLists));
  group.Text("--mask", flags.mask, "TENSOR", "[1 or B, 1 or H, Sq, Sk]: where it is not 0");
}

void AddLogitFlags(CLI::App& command, AttentionFlags& flags) {
  Group group(command, "Logits");
  v1::AttentionOptions& options = flags.options;
  group.Value<double>(
      "--softcap", [&options](double x) { options.set_softcap(x); }, "X",
      "A logit x becomes X * tanh(x / X)");
  group
      .Text("--alibi", flags.alibi, "standard|X,X", "Slopes of ALiBi: 2^(-8 i / H), or one a head")
      ->check(Accepts(ParseAlibi));
  group.Text("--sinks", flags.sinks, "X,X", "One more logit a head, for the denominator alone")
      ->check(Accepts(ParseNumbers));
  group.Text("--bias", flags.bias, "TENSOR", "[1 or B, 1 or H, Sq, Sk], added to the logits");
}

void AddRowFlags(CLI::App& command, AttentionFlags& flags) {
  Group group(command, "Rows of query and key");
  v1::AttentionOptions& options = flags.options;
  const auto rotary = [&options]() -> v1::Rotary& { return *options.mutable_rotary(); };
  group.Switch(
      "--rotary", [rotary](bool) { rotary(); }, "Rotary position embedding; the others imply it");
  group.Value<double>(
      "--rotary-base", [rotary](double x) { rotary().set_base(x); }, "X", "Default 10000");
  group.Value<int64_t>(
      "--rotary-dim", [rotary](int64_t n) { rotary().set_dim(n); }, "N",
      "Turn the first N elements of a head; default all");
  group.Switch(
      "--rotary-interleaved", [rotary](bool on) { rotary().set_interleaved(on); },
      "Pairs are (2i, 2i + 1) instead of (i, i + N / 2)");
  group
      .Text("--rotary-scaling", flags.rotary_scaling, "KIND",
            "linear:FACTOR or llama3:FACTOR,LOW,HIGH,POSITIONS")
      ->check(Accepts(ParseRotaryScaling));
  group.Value<int64_t>(
      "--rotary-offset", [rotary](int64_t n) { rotary().set_position_offset(n); }, "N",
      "Added to all positions");
  group.Text("--query-norm", flags.query_norm, "ones|TENSOR",
             "RMS norm of query rows: weights [D]");
  group.Text("--key-norm", flags.key_norm, "ones|TENSOR", "RMS norm of key rows: weights [D]");
  group.Value<double>(
      "--norm-epsilon", [&flags](double x) { flags.norm_epsilon = x; }, "X",
      "Of both norms; default 1e-6");
}

}  // namespace

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
