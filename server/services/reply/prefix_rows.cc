#include "server/services/reply/prefix_rows.h"

#include <span>
#include <utility>

#include "server/services/plan/plan_prefix.h"

namespace attention {
namespace {

size_t BytesOf(const std::vector<KvCache>& caches, int64_t tokens) {
  size_t bytes = 0;
  for (const KvCache& cache : caches) {
    bytes += KvCache::SizeBytes(cache.shape(), tokens);
  }
  return bytes;
}

// Makes room for all tokens of a sequence that takes none, if the prefix cache could hold them.
void ReserveAll(const PlannedPrefix& prefix, int64_t tokens, std::vector<KvCache>& caches) {
  SessionTable& table = *prefix.table;
  const bool fits = BytesOf(caches, tokens) <= static_cast<size_t>(table.prefixes().max_bytes());
  if (!fits || !ReserveByEviction(table, prefix.owner.account, caches, tokens)) {
    caches.clear();
  }
}

std::vector<float> Join(const std::vector<HiddenRows>& parts, int64_t d_model) {
  std::vector<float> joined;
  for (const HiddenRows& part : parts) {
    joined.insert(joined.end(), part.states->begin(), part.states->begin() + part.rows * d_model);
  }
  return joined;
}

}  // namespace

void PrefixRows::Prepare(AttendPlan& plan) {
  if (plan.prefix.table == nullptr) {
    return;
  }
  d_model_ = plan.model->info().d_model;
  rows_.resize(plan.sequences.size());
  for (int64_t i = 0; i < std::ssize(rows_); ++i) {
    const Prefix& taken = plan.prefix.taken[i];
    const int64_t tokens = plan.sequences[i].query.rows;
    std::vector<KvCache>& caches = *plan.CachesOf(i);
    if (taken.length == 0 && plan.caches == nullptr && !caches.empty()) {
      ReserveAll(plan.prefix, tokens, caches);
    }
    if (caches.empty()) {
      continue;
    }
    if (plan.wanted != ModelOutput::kLastLogits) {
      rows_[i].earlier = Join(taken.hidden, d_model_);
    }
    rows_[i].computed.resize((tokens - taken.length) * d_model_);
  }
}

EarlierRows PrefixRows::Of(int64_t sequence) {
  if (rows_.empty() || rows_[sequence].computed.empty()) {
    return {};
  }
  Rows& rows = rows_[sequence];
  const int64_t earlier = std::ssize(rows.earlier) / d_model_;
  return {.earlier = {rows.earlier.data(), Dtype::kF32, earlier, d_model_, d_model_},
          .hidden_states = rows.computed.data()};
}

void PrefixRows::Keep(AttendPlan& plan) const {
  for (int64_t i = 0; i < std::ssize(rows_); ++i) {
    if (rows_[i].computed.empty()) {
      continue;
    }
    const SequenceRows& rows = plan.sequences[i].query;
    plan.prefix.table->prefixes().Add(
        plan.prefix.owner,
        {.ids = std::span<const int32_t>(plan.ids).subspan(rows.first_row, rows.rows),
         .caches = *plan.CachesOf(i),
         .known = plan.prefix.taken[i].length,
         .hidden = rows_[i].computed});
  }
}

int64_t CachedTokens(const AttendPlan& plan) {
  int64_t tokens = 0;
  for (const Prefix& taken : plan.prefix.taken) {
    tokens += taken.length;
  }
  return tokens;
}

}  // namespace attention
