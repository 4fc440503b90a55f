#include "server/services/reply/top_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/kernels/tile/sum_exp.h"

namespace attention {
namespace {

struct Ranked {
  float logit = 0;
  int32_t id = 0;
};

// Returns the rank; NaN ranks last, with minus infinity.
float RankOf(float logit) {
  return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
}

bool ComesBefore(const Ranked& a, const Ranked& b) {
  const float left = RankOf(a.logit);
  const float right = RankOf(b.logit);
  return left != right ? left > right : a.id < b.id;
}

// Returns the largest logits in order. They are kept in a heap whose front is the smallest of them:
// nearly every logit of a vocabulary is smaller than that, and costs one comparison.
std::vector<Ranked> Largest(const std::vector<float>& logits, int64_t k) {
  const auto vocab_size = static_cast<int32_t>(logits.size());
  const auto count = static_cast<int32_t>(std::min<int64_t>(k, vocab_size));
  std::vector<Ranked> heap;
  heap.reserve(count);
  for (int32_t id = 0; id < count; ++id) {
    heap.push_back({logits[id], id});
  }
  std::make_heap(heap.begin(), heap.end(), ComesBefore);
  float last = RankOf(heap.front().logit);
  for (int32_t id = count; id < vocab_size; ++id) {
    if (logits[id] > last) {  // of equal ones, the earlier is kept
      std::pop_heap(heap.begin(), heap.end(), ComesBefore);
      heap.back() = {logits[id], id};
      std::push_heap(heap.begin(), heap.end(), ComesBefore);
      last = RankOf(heap.front().logit);
    }
  }
  std::sort_heap(heap.begin(), heap.end(), ComesBefore);
  return heap;
}

}  // namespace

void WriteTopLogits(const std::vector<float>& logits, int64_t k, v1::TopLogits& wire) {
  const std::vector<Ranked> largest = Largest(logits, std::max<int64_t>(k, 1));
  for (const Ranked& entry : largest) {
    wire.add_ids(entry.id);
    wire.add_logits(entry.logit);
  }
  const float top = RankOf(largest.front().logit);
  wire.set_log_sum_exp(static_cast<float>(top + std::log(SumExp(logits, top))));
}

void NameTokens(const Tokenizer* tokenizer, v1::TopLogits& wire) {
  for (int i = 0; tokenizer != nullptr && i < wire.ids_size(); ++i) {
    wire.add_tokens(std::string(tokenizer->BytesOf(wire.ids(i))));
  }
}

}  // namespace attention
