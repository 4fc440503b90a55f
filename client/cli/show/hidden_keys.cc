#include "client/cli/show/hidden_keys.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/load/workload.h"

namespace attention {
namespace {

constexpr double kHidingBias = -std::numeric_limits<double>::infinity();

void AddRule(const std::string& rule, std::vector<std::string>& rules) {
  if (std::find(rules.begin(), rules.end(), rule) == rules.end()) {
    rules.push_back(rule);
  }
}

void AddRules(const reference::Options& options, std::vector<std::string>& rules) {
  const auto add = [&rules](bool is_set, const std::string& rule) {
    if (is_set) {
      AddRule(rule, rules);
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
  add(options.prefix > 0, absl::StrCat("except the first ", options.prefix, " keys"));
  add(!options.global_tokens.empty(),
      absl::StrCat("except global tokens ", absl::StrJoin(options.global_tokens, " ")));
}

}  // namespace

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
    const bool is_hidden = !reference::Sees(extents, options, head, row, key) ||
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

void HideZeros(LayerPicture& layer, std::vector<std::string>& rules) {
  const int64_t cells = std::ssize(layer.rows) * std::ssize(layer.keys);
  const float* weights = layer.weights.as<float>();
  const int64_t num_heads = std::ssize(layer.heads);
  std::vector<uint8_t> hidden = layer.hidden;
  hidden.resize(std::max<size_t>(hidden.size(), cells), 0);
  bool is_any_new = false;
  for (int64_t i = 0; i < cells; ++i) {
    bool is_zero = num_heads > 0;
    for (int64_t head = 0; head < num_heads && is_zero; ++head) {
      is_zero = weights[head * cells + i] == 0;
    }
    for (int64_t at = i; at < std::ssize(hidden) && is_zero; at += cells) {
      is_any_new = is_any_new || hidden[at] == 0;
      hidden[at] = 1;
    }
  }
  if (is_any_new) {
    layer.hidden = std::move(hidden);
    AddRule("weights of exactly 0 in all heads", rules);
  }
}

}  // namespace attention
