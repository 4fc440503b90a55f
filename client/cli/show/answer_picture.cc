#include "client/cli/show/answer_picture.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/sequences.h"
#include "client/load/reference_options.h"
#include "client/load/workload.h"
#include "client/plot/token_text.h"
#include "core/reference/reference.h"
#include "core/runtime/counted.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

constexpr double kHidingBias = -std::numeric_limits<double>::infinity();

void AddRules(const reference::Options& options, std::vector<std::string>& rules) {
  const auto add = [&rules](bool is_set, const std::string& rule) {
    if (is_set && std::find(rules.begin(), rules.end(), rule) == rules.end()) {
      rules.push_back(rule);
    }
  };
  add(options.causal, "causal");
  for (const reference::VisibilityNumber& number : reference::kVisibilityNumbers) {
    const int64_t value = options.*number.value;
    add(number.value != &reference::Options::prefix && value != reference::Options().*number.value,
        absl::StrCat(WordsOf(number.name), " ", value));
  }
  add(!options.mask.empty(), "mask");
  add(std::count(options.bias.begin(), options.bias.end(), kHidingBias) > 0, "bias of -infinity");
  add(options.prefix > 0, absl::StrCat("except the first ", Counted(options.prefix, "key")));
  add(!options.global_tokens.empty(),
      absl::StrCat("except global tokens ", absl::StrJoin(options.global_tokens, " ")));
}

/// Hides from each row the keys that `options` hide, whatever was hidden before; no row has the
/// last `extra_keys` keys hidden. If a key is hidden, adds to `rules` what hides keys, each rule
/// once: "causal", "window 4". REQUIRES: mask and bias of `options` are empty or fit the layer
/// without the extra keys.
void HideByRules(const reference::Options& options, int64_t extra_keys, LayerPicture& layer,
                 std::vector<std::string>& rules) {
  const int64_t rows = std::ssize(layer.rows), keys = std::ssize(layer.keys);
  const reference::Extents extents = {.query_len = rows, .kv_len = keys - extra_keys};
  const int64_t cells = extents.query_len * extents.kv_len;
  const bool has_bias_heads = std::ssize(options.bias) > cells;
  const bool has_heads = has_bias_heads || std::ssize(options.mask) > cells;
  layer.hidden.assign((has_heads ? std::ssize(layer.heads) : 1) * rows * keys, 0);
  bool is_any_hidden = false;
  for (int64_t i = 0; i < std::ssize(layer.hidden); ++i) {
    const int64_t head = i / (rows * keys), row = i / keys % rows, key = i % keys;
    if (key >= extents.kv_len) {
      continue;
    }
    const int64_t bias = (has_bias_heads ? head * cells : 0) + row * extents.kv_len + key;
    const bool is_hidden = !reference::AttendsTo(extents, options, head, row, key) ||
                           (!options.bias.empty() && options.bias[bias] == kHidingBias);
    layer.hidden[i] = is_hidden ? 1 : 0;
    is_any_hidden = is_any_hidden || is_hidden;
  }
  if (is_any_hidden) {
    AddRules(options, rules);
  } else {
    layer.hidden.clear();
  }
}

/// The origin of the rows and keys of a layer: both from the input, or the keys or both from
/// `memory`.
enum class Source { kInput, kMemoryKeys, kMemory };

/// Makes the picture of one answer.
class AnswerPainter {
 public:
  AnswerPainter(const AttendRequest& request, const AttendResult& result, const v1::Model& model,
                std::span<const SequenceSpan> sequences)
      : request_(request), result_(result), model_(model), sequences_(sequences) {}

  absl::StatusOr<AttentionPicture> Paint() {
    AttentionPicture picture;
    picture.title = request_.model.empty() ? "Attention" : "Attention of " + request_.model;
    picture.source = Describe(request_);
    for (int64_t s = 0; s < std::ssize(sequences_); ++s) {
      SequencePicture sequence = {.name = absl::StrCat("sequence ", s)};
      if (s < std::ssize(result_.weights)) {
        RETURN_IF_ERROR(ExpectRank(result_.weights[s]));
        ASSIGN_OR_RETURN(LayerPicture layer, LayerOfRequest(s));
        sequence.layers.push_back(std::move(layer));
      }
      for (const LayerWeights& weights : result_.layer_weights) {
        RETURN_IF_ERROR(ExpectRank(weights.weights));
        if (weights.sequence == s) {
          sequence.layers.push_back(LayerOfStack(weights));
        }
      }
      if (!sequence.layers.empty()) {
        picture.sequences.push_back(std::move(sequence));
      }
    }
    picture.hidden_by = absl::StrJoin(rules_, ", ");
    return picture;
  }

 private:
  static absl::Status ExpectRank(const Tensor& weights) {
    return weights.shape().size() == 3
               ? absl::OkStatus()
               : absl::InternalError(
                     absl::StrCat("answer: expected weights [H, query_len, kv_len], found ",
                                  ShapeText(weights.shape())));
  }

  const v1::Layer& Facts(int64_t layer) const {
    return layer >= 0 && layer < model_.layers_size() ? model_.layers(static_cast<int>(layer))
                                                      : v1::Layer::default_instance();
  }

  /// Whether a layer of a stack belongs to an encoder, whose input is `memory`.
  bool IsEncoder(int64_t layer) const {
    const int64_t crosses = std::count_if(model_.layers().begin(), model_.layers().end(),
                                          [](const v1::Layer& one) { return one.is_cross(); });
    return model_.has_encoder() && layer < model_.layers_size() - 2 * crosses;
  }

  std::vector<std::string> TokensOf(int64_t sequence, int64_t rows) const {
    std::vector<std::string> tokens;
    if (sequence < std::ssize(result_.tokens)) {
      for (const std::string& token : result_.tokens[sequence].tokens()) {
        tokens.push_back(ShownToken(token));
      }
    } else if (const auto* input = std::get_if<TokenIdsInput>(&request_.input)) {
      const SequenceSpan& span = sequences_[sequence];
      for (const int32_t id : std::span(input->ids).subspan(span.first_row, span.query_len)) {
        tokens.push_back(absl::StrCat("#", id));
      }
    }
    return std::ssize(tokens) == rows ? tokens : NumberedTokens(rows);
  }

  /// The picture of a layer without hidden cells.
  LayerPicture Open(int64_t number, int64_t sequence, const Tensor& weights, Source source) const {
    const int64_t num_heads = weights.shape()[0], rows = weights.shape()[1],
                  keys = weights.shape()[2];
    const int64_t extra = std::min<int64_t>(keys, Facts(number).extra_keys());
    LayerPicture layer = {.name = absl::StrCat("layer ", number),
                          .number = number,
                          .weights = weights.ConvertedTo(Dtype::kF32)};
    for (int64_t head = 0; head < num_heads; ++head) {
      layer.heads.push_back(head);
    }
    layer.rows =
        source == Source::kMemory ? NumberedTokens(rows, "memory ") : TokensOf(sequence, rows);
    layer.keys = source == Source::kMemoryKeys ? NumberedTokens(keys - extra, "memory ")
                 : rows == keys - extra        ? layer.rows
                                               : NumberedTokens(keys - extra);
    for (std::string& name : NumberedTokens(extra, "extra ")) {
      layer.keys.push_back(std::move(name));
    }
    return layer;
  }

  /// The picture of a run of one layer, or of attention without a model.
  absl::StatusOr<LayerPicture> LayerOfRequest(int64_t s) {
    const int64_t number = request_.layer.value_or(0);
    const v1::Layer& facts = Facts(number);
    const auto* hidden_states = std::get_if<HiddenStatesInput>(&request_.input);
    const Tensor& weights = result_.weights[s];
    const bool has_memory = hidden_states != nullptr && hidden_states->memory != nullptr;
    LayerPicture layer =
        Open(number, s, weights, has_memory ? Source::kMemoryKeys : Source::kInput);
    if (request_.model.empty()) {
      layer.name = "attention";
    } else if (model_.has_stack()) {
      layer.name += " alone";  // its weights in the stack are others
    }
    layer.tensor_name = absl::StrCat("weights.", s);
    const AttentionExtents extents = {
        .num_sequences = std::ssize(sequences_),
        .num_heads = weights.shape()[0],
        .head_dim = std::numeric_limits<int64_t>::max(),
        .is_causal = model_.layers().empty() ? model_.causal() : facts.causal()};
    const SequenceSpan& span = sequences_[s];
    if (std::ssize(layer.rows) != span.query_len ||
        std::ssize(layer.keys) != span.kv_len + facts.extra_keys()) {
      return absl::InternalError(
          absl::StrCat("answer: weights of sequence ", s, ": expected [H, ", span.query_len, ", ",
                       span.kv_len + facts.extra_keys(), "], found ", ShapeText(weights.shape())));
    }
    AttendRequest visibility = {.bias = request_.bias, .mask = request_.mask};
    visibility.options = VisibilityOf(request_.options);
    ASSIGN_OR_RETURN(reference::Options options,
                     ReferenceOptionsOf(visibility, extents, s, sequences_[s]));
    if (options.window == 0 && options.similarity != reference::Similarity::kLinear) {
      options.window = facts.window();
    }
    HideByRules(options, facts.extra_keys(), layer, rules_);
    return layer;
  }

  /// The options that say which keys a row attends to.
  static v1::AttentionOptions VisibilityOf(v1::AttentionOptions options) {
    options.clear_alibi_slopes();
    options.clear_sinks();
    options.clear_rotary();
    options.clear_query_norm();
    options.clear_key_norm();
    return options;
  }

  LayerPicture LayerOfStack(const LayerWeights& weights) {
    const v1::Layer& facts = Facts(weights.layer);
    const Source source = IsEncoder(weights.layer) ? Source::kMemory
                          : facts.is_cross()       ? Source::kMemoryKeys
                                                   : Source::kInput;
    LayerPicture layer = Open(weights.layer, weights.sequence, weights.weights, source);
    const auto& heads = request_.weights_choice.heads();
    if (heads.size() == std::ssize(layer.heads)) {
      layer.heads.assign(heads.begin(), heads.end());
    }
    layer.tensor_name = absl::StrCat("layer_weights.", weights.layer, ".", weights.sequence);
    const int64_t extra_keys = std::min<int64_t>(std::ssize(layer.keys), facts.extra_keys());
    HideByRules({.causal = facts.causal(), .window = facts.window()}, extra_keys, layer, rules_);
    return layer;
  }

  const AttendRequest& request_;
  const AttendResult& result_;
  const v1::Model& model_;
  std::span<const SequenceSpan> sequences_;
  std::vector<std::string> rules_ = {};  // what hides keys
};

}  // namespace

absl::StatusOr<AttentionPicture> PictureOfAnswer(AttentionClient& client,
                                                 const AttendRequest& request,
                                                 const AttendResult& result) {
  v1::Model model;
  if (!request.model.empty()) {
    ASSIGN_OR_RETURN(model, client.GetModel(request.model, request.model_version));
  }
  ASSIGN_OR_RETURN(const std::vector<SequenceSpan> sequences, SequencesOf(request, result.tokens));
  return AnswerPainter(request, result, model, sequences).Paint();
}

}  // namespace attention
