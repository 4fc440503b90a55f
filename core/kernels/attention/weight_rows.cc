#include "core/kernels/attention/weight_rows.h"

#include <algorithm>

namespace attention {

WeightRows::WeightRows(const TileState& state) : s_(state) {
  if (s_.sequence.top_k > 0) {
    best_.resize(s_.rows);
  }
  for (int64_t r = 0; s_.sequence.weights != nullptr && r < s_.rows; ++r) {
    std::fill_n(RowOfWeights(r), s_.sequence.kv_len(), 0.0f);
  }
}

float* WeightRows::RowOfWeights(int64_t row) const {
  const FlashSequence& sequence = s_.sequence;
  return sequence.weights +
         (s_.HeadOf(row) * sequence.query.tokens + s_.RowOf(row)) * sequence.kv_len();
}

void WeightRows::Take(int64_t first_key) {
  for (int64_t r = 0; r < s_.rows; ++r) {
    const float* weights = s_.scores + r * kScoreStride;
    if (s_.sequence.weights != nullptr) {
      std::copy(weights + s_.visible_begin[r], weights + s_.visible_end[r],
                RowOfWeights(r) + first_key + s_.visible_begin[r]);
    }
    if (s_.sequence.top_k > 0) {
      TakeCandidates(r, first_key);
    }
  }
}

void WeightRows::TakeCandidates(int64_t row, int64_t first_key) {
  std::vector<Candidate>& best = best_[row];
  const float* weights = s_.scores + row * kScoreStride;
  for (int64_t col = s_.visible_begin[row]; col < s_.visible_end[row]; ++col) {
    const bool is_full = std::ssize(best) == s_.sequence.top_k;
    // Keys come in order: a weight that is only equal to the least kept one comes later.
    if (!(weights[col] > (is_full ? best.front().weight : 0.0f))) {
      continue;
    }
    if (is_full) {
      std::pop_heap(best.begin(), best.end(), IsBetter);
      best.pop_back();
    }
    best.push_back({weights[col], static_cast<int32_t>(first_key + col)});
    std::push_heap(best.begin(), best.end(), IsBetter);
  }
}

void WeightRows::Finish(int64_t row, float sum) {
  const FlashSequence& sequence = s_.sequence;
  if (sequence.weights != nullptr && sum != 0) {
    float* weights = RowOfWeights(row);
    for (int64_t key = s_.range_begin[row]; key < s_.range_end[row]; ++key) {
      weights[key] /= sum;
    }
  }
  if (sequence.top_k == 0) {
    return;
  }
  std::vector<Candidate>& best = best_[row];
  std::sort(best.begin(), best.end(), IsBetter);
  const int64_t first = (s_.HeadOf(row) * sequence.query.tokens + s_.RowOf(row)) * sequence.top_k;
  for (int64_t i = 0; i < sequence.top_k; ++i) {
    const float weight = i < std::ssize(best) ? best[i].weight / sum : 0.0f;
    const bool is_there = weight > 0;
    sequence.top_weights[first + i] = weight;
    sequence.top_keys[first + i] = is_there ? best[i].key : -1;
  }
}

}  // namespace attention
