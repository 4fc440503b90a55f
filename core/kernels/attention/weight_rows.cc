#include "core/kernels/attention/weight_rows.h"

#include <algorithm>
#include <cmath>

namespace attention {
namespace {

/// The number of weights that are compared together.
constexpr int64_t kTogether = 16;

/// The most candidates that are kept in order, so that each new one tells which are not good
/// enough.
constexpr int64_t kMostOrdered = 64;

bool AnyIsLarger(const float* weights, float least) {
  int any = 0;
  for (int64_t i = 0; i < kTogether; ++i) {
    any |= static_cast<int>(weights[i] > least);
  }
  return any != 0;
}

}  // namespace

WeightRows::WeightRows(const TileSetup& setup, const RowKeys& row_keys)
    : setup_(setup), sequence_(setup.sequence), row_keys_(row_keys) {
  if (sequence_.top_k > 0) {
    best_.resize(setup_.rows);
  }
  for (int64_t r = 0; sequence_.weights != nullptr && r < setup_.rows; ++r) {
    std::fill_n(RowOfWeights(r), sequence_.kv_len(), 0.0f);
  }
}

float* WeightRows::RowOfWeights(int64_t row) const {
  return sequence_.weights +
         (setup_.HeadOf(row) * sequence_.query.tokens + setup_.RowOf(row)) * sequence_.kv_len();
}

void WeightRows::Take(const KeyTile& keys) {
  for (int64_t r = 0; r < setup_.rows; ++r) {
    const float* weights = keys.ScoreRow(r);
    if (sequence_.weights != nullptr) {
      std::copy(weights + keys.visible_begin[r], weights + keys.visible_end[r],
                RowOfWeights(r) + keys.first_key + keys.visible_begin[r]);
    }
    if (sequence_.top_k > 0) {
      TakeCandidates(r, keys);
    }
  }
}

void WeightRows::TakeCandidates(int64_t row, const KeyTile& keys) {
  Candidates& best = best_[row];
  const float* weights = keys.ScoreRow(row);
  const int64_t end = keys.visible_end[row];
  for (int64_t begin = keys.visible_begin[row]; begin < end; begin += kTogether) {
    const int64_t count = std::min(kTogether, end - begin);
    if (count == kTogether && !AnyIsLarger(weights + begin, best.least)) {
      continue;
    }
    for (int64_t col = begin; col < begin + count; ++col) {
      // Keys come in order: a weight that is only equal to the least kept one comes later.
      if (weights[col] > best.least) {
        Add({weights[col], static_cast<int32_t>(keys.first_key + col)}, best);
      }
    }
  }
}

/// Adds a candidate whose key comes after those of the others.
void WeightRows::Add(const Candidate& candidate, Candidates& best) const {
  best.all.push_back(candidate);
  if (sequence_.top_k > kMostOrdered) {
    if (std::ssize(best.all) >= 2 * sequence_.top_k + kTogether) {
      KeepBest(best);
    }
    return;
  }
  auto slot = best.all.end() - 1;
  for (; slot != best.all.begin() && slot[-1].weight < candidate.weight; --slot) {
    *slot = slot[-1];
  }
  *slot = candidate;
  if (std::ssize(best.all) > sequence_.top_k) {
    best.all.pop_back();
  }
  if (std::ssize(best.all) == sequence_.top_k) {
    best.least = best.all.back().weight;
  }
}

/// Drops all but the best top_k candidates.
void WeightRows::KeepBest(Candidates& best) const {
  if (std::ssize(best.all) <= sequence_.top_k) {
    return;
  }
  const auto last = best.all.begin() + sequence_.top_k - 1;
  std::nth_element(best.all.begin(), last, best.all.end(), IsBetter());
  best.least = last->weight;
  best.all.resize(sequence_.top_k);
}

/// Divides the weights, which may make some equal: these then come in the order of their keys.
void WeightRows::DivideSorted(float sum, std::vector<Candidate>& sorted) {
  for (Candidate& candidate : sorted) {
    candidate.weight /= sum;
  }
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::find_if(begin + 1, sorted.end(), [begin](const Candidate& candidate) {
      return candidate.weight != begin->weight;
    });
    std::sort(begin, end, IsBetter());
    begin = end;
  }
}

void WeightRows::Finish(int64_t row, float sum) {
  if (sequence_.weights != nullptr && sum != 0) {
    float* weights = RowOfWeights(row);
    for (int64_t key = row_keys_.begin[row]; key < row_keys_.end[row]; ++key) {
      weights[key] /= sum;
    }
  }
  if (sequence_.top_k == 0) {
    return;
  }
  KeepBest(best_[row]);
  std::vector<Candidate>& best = best_[row].all;
  std::sort(best.begin(), best.end(), IsBetter());
  DivideSorted(sum, best);
  const int64_t first =
      (setup_.HeadOf(row) * sequence_.query.tokens + setup_.RowOf(row)) * sequence_.top_k;
  for (int64_t i = 0; i < sequence_.top_k; ++i) {
    // A row of NaN has no candidates.
    const float none = std::isnan(sum) ? sum : 0.0f;
    const float weight = i < std::ssize(best) ? best[i].weight : none;
    const bool is_there = weight > 0;
    sequence_.top_weights[first + i] = weight;
    sequence_.top_keys[first + i] = is_there ? best[i].key : -1;
  }
}

}  // namespace attention
