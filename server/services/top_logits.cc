#include "server/services/top_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace attention {

void WriteTopLogits(const std::vector<float>& logits, int64_t k, v1::TopLogits& wire) {
  const int64_t vocab_size = std::ssize(logits);
  std::vector<int32_t> ids(vocab_size);
  std::iota(ids.begin(), ids.end(), 0);
  const auto rank = [&](int32_t id) {
    return std::isnan(logits[id]) ? -std::numeric_limits<float>::infinity() : logits[id];
  };
  const auto end = ids.begin() + std::min(k, vocab_size);
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
  });
  double sum = 0;
  const double largest = rank(ids.front());
  for (int64_t id = 0; id < vocab_size; ++id) {
    sum += std::exp(logits[id] - largest);
  }
  for (auto id = ids.begin(); id != end; ++id) {
    wire.add_ids(*id);
    wire.add_logits(logits[*id]);
  }
  wire.set_log_sum_exp(static_cast<float>(largest + std::log(sum)));
}

void NameTokens(const Tokenizer* tokenizer, v1::TopLogits& wire) {
  for (int i = 0; tokenizer != nullptr && i < wire.ids_size(); ++i) {
    wire.add_tokens(std::string(tokenizer->BytesOf(wire.ids(i))));
  }
}

}  // namespace attention
