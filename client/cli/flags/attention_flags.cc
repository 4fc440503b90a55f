#include "client/cli/flags/attention_flags.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/files/tensor_file.h"
#include "client/cli/flags/help_group.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

constexpr char kStandardAlibi[] = "standard";
// The limit of POSITIONS in --rotary-scaling, up to which a double is exact.
constexpr double kMaxPositions = 1e15;

/// Parses "N", or "N;;N": one number for each sequence; the list is empty for a sequence without a
/// number of its own.
absl::StatusOr<Lists> ParseCounts(const std::string& text) {
  ASSIGN_OR_RETURN(Lists lists, ParseLists(text));
  for (const std::vector<int64_t>& list : lists) {
    if (list.size() > 1 || (list.empty() && lists.size() == 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\": expected N, or N;N for different sequences"));
    }
  }
  return lists;
}

/// Parses "1;0": for each sequence 1, 0 or nothing.
absl::StatusOr<Lists> ParseSwitches(const std::string& text) {
  ASSIGN_OR_RETURN(Lists lists, ParseCounts(text));
  for (const std::vector<int64_t>& list : lists) {
    if (!list.empty() && list[0] != 0 && list[0] != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\": expected 0 or 1, found ", list[0]));
    }
  }
  return lists;
}

/// Parses the slopes of ALiBi; none for the standard ones.
absl::StatusOr<std::vector<double>> ParseAlibi(const std::string& text) {
  return text == kStandardAlibi ? std::vector<double>() : ParseNumbers(text);
}

/// Parses "linear:4" or "llama3:8[,LOW,HIGH,POSITIONS]" to a message with only the scaling.
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
    const double positions = numbers->back();
    if (positions != std::floor(positions)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\": POSITIONS: expected an integer, found ", positions));
    }
    rotary.set_low_freq_factor((*numbers)[1]);
    rotary.set_high_freq_factor((*numbers)[2]);
    rotary.set_original_max_positions(static_cast<int64_t>(positions));
  }
  return rotary;
}

/// Calls `set` with the options and the only list of the flag `name`, or for each sequence with its
/// options and list.
template <typename Set>
void SetLists(const char* name, const Lists& lists, v1::AttentionOptions& options, const Set& set) {
  if (lists.size() == 1) {
    set(options, lists[0]);
    return;
  }
  if (!options.sequences().empty() && options.sequences_size() != std::ssize(lists)) {
    throw CLI::ValidationError(
        name,
        absl::StrCat("expected one value, or ", options.sequences_size(),
                     " as the flags before it have (one for each sequence), found ", lists.size()));
  }
  for (int i = 0; i < std::ssize(lists); ++i) {
    v1::SequenceOptions& own =
        i < options.sequences_size() ? *options.mutable_sequences(i) : *options.add_sequences();
    if (!lists[i].empty()) {
      set(own, lists[i]);
    }
  }
}

void AddKindFlags(CLI::App& command, v1::AttentionOptions& options) {
  HelpGroup group(command, "How to attend");
  static constexpr char kSimilarities[] = "dot_product|gaussian|box|triangular|linear";
  group.SwitchSetter(
      "--causal,!--no-causal", [&options](bool on) { options.set_causal(on); },
      "Attend only to keys up to the row's own position; default: as the model does");
  group.Setter<double>(
      "--scale", [&options](double x) { options.set_scale(x); }, "X",
      "Factor of the scores (query . key); default 1 / sqrt(D)");
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
      "Bandwidth of gaussian, box and triangular");
}

void AddVisibilityFlags(CLI::App& command, AttentionFlags& flags) {
  HelpGroup group(command, "Which keys a row attends to (N;N: a value for each sequence)");
  v1::AttentionOptions& options = flags.options;
  const auto add = [&](const char* name, auto parse, const char* type, const char* help, auto set) {
    group.Parsed(
        name, parse,
        [name, &options, set](const Lists& lists) { SetLists(name, lists, options, set); }, type,
        help);
  };
  add("--causal-each", ParseSwitches, "1;0",
      "For each sequence: 1 is causal, 0 is not, empty is as --causal says",
      [](auto& part, const auto& list) { part.set_causal(list[0] != 0); });
  add("--window", ParseCounts, "N",
      "The row's own key and the N - 1 keys before it; later keys too, unless --causal or "
      "--window-right hides them",
      [](auto& part, const auto& list) { part.set_window(list[0]); });
  add("--window-right", ParseCounts, "N", "Up to N keys after the row's own position",
      [](auto& part, const auto& list) { part.set_window_right(list[0]); });
  add("--window-dilation", ParseCounts, "N",
      "Only every N-th key of the window, counted from the row's own position",
      [](auto& part, const auto& list) { part.set_window_dilation(list[0]); });
  add("--prefix", ParseCounts, "N", "Always attend to the first N keys",
      [](auto& part, const auto& list) { part.set_prefix(list[0]); });
  add("--global-tokens", ParseLists, "N,N",
      "Positions that attend to all keys, and to which all rows attend",
      [](auto& part, const auto& list) {
        part.mutable_global_tokens()->Assign(list.begin(), list.end());
      });
  group.Value("--mask", flags.mask, "TENSOR",
              "[1 or B, 1 or H, Sq, Sk], [H, Sq, Sk] or [Sq, Sk]: 0 hides a key, 1 does not");
}

void AddLogitFlags(CLI::App& command, AttentionFlags& flags) {
  HelpGroup group(command, "Logits");
  v1::AttentionOptions& options = flags.options;
  using Numbers = std::vector<double>;
  group.Setter<double>(
      "--softcap", [&options](double x) { options.set_softcap(x); }, "X",
      "A logit x becomes X * tanh(x / X)");
  group.Parsed(
      "--alibi", ParseAlibi,
      [&flags](const Numbers& slopes) {
        flags.has_standard_alibi = slopes.empty();
        flags.options.mutable_alibi_slopes()->Assign(slopes.begin(), slopes.end());
      },
      "standard|X,X", "Slopes of ALiBi: 2^(-8 i / H), or one for each head");
  group.Parsed(
      "--sinks", ParseNumbers,
      [&options](const Numbers& sinks) {
        options.mutable_sinks()->Assign(sinks.begin(), sinks.end());
      },
      "X,X", "One more logit for each head, which counts only in the denominator");
  group.Value("--bias", flags.bias, "TENSOR", "Shaped as --mask, added to the logits");
}

void AddRowFlags(CLI::App& command, AttentionFlags& flags) {
  HelpGroup group(command, "Rows of query and key");
  const auto rotary = [&flags]() -> v1::Rotary& { return *flags.options.mutable_rotary(); };
  group.OnSwitch(
      "--rotary", [rotary] { rotary(); },
      "Rotary position embedding; each --rotary-... implies it");
  group.Setter<double>(
      "--rotary-base", [rotary](double x) { rotary().set_base(x); }, "X",
      "Base of the rotation's frequencies; default 10000");
  group.Setter<int64_t>(
      "--rotary-dim", [rotary](int64_t n) { rotary().set_dim(n); }, "N",
      "Rotate the first N elements of a head; default all");
  group.OnSwitch(
      "--rotary-interleaved", [rotary] { rotary().set_interleaved(true); },
      "Pairs are (2i, 2i + 1) instead of (i, i + N / 2)");
  group.Parsed(
      "--rotary-scaling", ParseRotaryScaling,
      [rotary](const v1::Rotary& scaling) { rotary().MergeFrom(scaling); }, "KIND",
      "linear:FACTOR or llama3:FACTOR[,LOW,HIGH,POSITIONS]");
  group.Setter<int64_t>(
      "--rotary-offset", [rotary](int64_t n) { rotary().set_position_offset(n); }, "N",
      "Added to all positions");
  group.Value("--query-norm", flags.query_norm, "ones|TENSOR",
              "RMS norm of query rows: weights [D]");
  group.Value("--key-norm", flags.key_norm, "ones|TENSOR", "RMS norm of key rows: weights [D]");
  group.Value("--norm-epsilon", flags.norm_epsilon, "X", "Epsilon of both norms; default 1e-6");
}

absl::StatusOr<int64_t> NumHeads(AttentionClient& client, const AttendRequest& request) {
  if (const auto* input = std::get_if<QueryKeyValueInput>(&request.input)) {
    const Shape& shape = input->query->shape();
    return shape.size() < 2 ? 0 : shape[shape.size() - 2];
  }
  ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(request.model, request.model_version));
  const int64_t layer = request.layer.value_or(0);
  return layer >= 0 && layer < model.layers_size()
             ? model.layers(static_cast<int>(layer)).num_heads()
             : model.num_heads();
}

absl::Status AddNorm(const std::string& source, uint64_t seed, std::optional<double> epsilon,
                     v1::RmsNorm& norm) {
  if (epsilon.has_value()) {
    norm.set_epsilon(*epsilon);
  }
  if (source != "ones") {
    ASSIGN_OR_RETURN(const Tensor tensor, LoadTensor(source, seed));
    const Tensor weights = tensor.ConvertedTo(Dtype::kF32);
    norm.mutable_weight()->Assign(weights.as<float>(),
                                  weights.as<float>() + weights.num_elements());
  }
  return absl::OkStatus();
}

/// Loads a tensor of scores as FP32 of rank 4: [Sq, Sk] and [H, Sq, Sk] are those of all sequences.
absl::StatusOr<Tensor> LoadScores(const std::string& source, uint64_t seed) {
  ASSIGN_OR_RETURN(const Tensor stored, LoadTensor(source, seed));
  Shape shape = stored.shape();
  shape.insert(shape.begin(), std::max<int64_t>(0, 4 - std::ssize(shape)), 1);
  Tensor scores(Dtype::kF32, std::move(shape));
  Convert(stored.dtype(), stored.data(), Dtype::kF32, scores.data(), stored.num_elements());
  return scores;
}

absl::StatusOr<MaskTensor> MaskOf(const Tensor& scores) {
  MaskTensor mask{scores.shape()};
  for (int64_t i = 0; i < scores.num_elements(); ++i) {
    const float value = scores.as<float>()[i];
    if (value != 0 && value != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--mask: expected 0 (hides a key) and 1, found ", value,
                       " (--bias adds numbers to the logits)"));
    }
    mask.values.push_back(value == 1 ? 1 : 0);
  }
  return mask;
}

absl::Status AddScoreTensors(const AttentionFlags& flags, uint64_t seed, Workload& workload) {
  if (!flags.bias.empty()) {
    ASSIGN_OR_RETURN(Tensor bias, LoadScores(flags.bias, SeedOf(seed, "bias")));
    workload.tensors.push_back(std::make_unique<const Tensor>(std::move(bias)));
    workload.request.bias = workload.tensors.back().get();
  }
  if (!flags.mask.empty()) {
    ASSIGN_OR_RETURN(const Tensor scores, LoadScores(flags.mask, SeedOf(seed, "mask")));
    ASSIGN_OR_RETURN(MaskTensor mask, MaskOf(scores));
    workload.mask = std::make_unique<const MaskTensor>(std::move(mask));
    workload.request.mask = workload.mask.get();
  }
  return absl::OkStatus();
}

}  // namespace

bool AttentionFlags::is_given() const {
  return options.ByteSizeLong() > 0 || has_standard_alibi || norm_epsilon.has_value() ||
         !(query_norm.empty() && key_norm.empty() && bias.empty() && mask.empty());
}

void AddAttentionFlags(CLI::App& command, AttentionFlags& flags) {
  AddKindFlags(command, flags.options);
  AddVisibilityFlags(command, flags);
  AddLogitFlags(command, flags);
  AddRowFlags(command, flags);
}

absl::Status AddAttention(const AttentionFlags& flags, uint64_t seed, AttentionClient& client,
                          Workload& workload) {
  v1::AttentionOptions& options = workload.request.options;
  options = flags.options;
  if (flags.has_standard_alibi) {
    ASSIGN_OR_RETURN(const int64_t num_heads, NumHeads(client, workload.request));
    for (int64_t i = 1; i <= num_heads; ++i) {
      options.add_alibi_slopes(static_cast<float>(
          std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(num_heads))));
    }
  }
  if (!flags.query_norm.empty()) {
    RETURN_IF_ERROR(AddNorm(flags.query_norm, SeedOf(seed, "query_norm"), flags.norm_epsilon,
                            *options.mutable_query_norm()));
  }
  if (!flags.key_norm.empty()) {
    RETURN_IF_ERROR(AddNorm(flags.key_norm, SeedOf(seed, "key_norm"), flags.norm_epsilon,
                            *options.mutable_key_norm()));
  }
  return AddScoreTensors(flags, seed, workload);
}

}  // namespace attention
