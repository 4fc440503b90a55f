#include "server/services/reply/prefix_rows.h"

#include <span>
#include <utility>

#include "server/services/plan/plan_prefix.h"

namespace attention {
namespace {

// Makes caches with room for all tokens of a sequence that takes none, if the prefix cache could
// hold them beside the other new ones of the request: `room` is what is left of its budget, and
// becomes 0 when there is no memory.
std::vector<KvCache> MakeRoom(const PlannedPrefix& prefix, int64_t tokens, int64_t& room) {
  std::vector<KvCache> caches;
  const int64_t bytes = prefix.CacheBytes(tokens);
  if (bytes > room) {
    return caches;
  }
  room -= bytes;
  SessionTable& table = *prefix.table;
  const std::shared_ptr<KvMemory> memory = table.memory(prefix.owner.account);
  caches.reserve(prefix.shapes.size());
  for (const KvCacheShape& shape : prefix.shapes) {
    caches.push_back(*KvCache::Create(shape, memory));
  }
  if (!table.ReserveFor(prefix.owner.account, caches, tokens, MayEndParked::kNo).ok()) {
    caches.clear();
    room = 0;
  }
  return caches;
}

std::vector<float> Join(const HiddenChunks& chunks, int64_t d_model) {
  std::vector<float> joined;
  for (const HiddenRows& chunk : chunks) {
    const auto first = chunk.states->begin() + chunk.first * d_model;
    joined.insert(joined.end(), first, first + chunk.rows * d_model);
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
  int64_t room = plan.prefix.table->prefixes().max_bytes();
  for (int64_t i = 0; i < std::ssize(rows_); ++i) {
    const TakenPrefix& taken = plan.prefix.taken[i];
    const int64_t tokens = plan.sequences[i].query.rows;
    if (tokens == 0) {
      continue;
    }
    plan.prefix.table->prefixes().CountUse(taken.length, plan.prefix.CacheBytes(taken.length));
    std::vector<KvCache>& caches = *plan.CachesOf(i);
    if (taken.length == 0 && plan.caches == nullptr) {
      caches = MakeRoom(plan.prefix, tokens, room);
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
  for (const TakenPrefix& taken : plan.prefix.taken) {
    tokens += taken.length;
  }
  return tokens;
}

void SetCached(const AttendPlan& plan, BatchStats& stats) {
  stats.cached_tokens = CachedTokens(plan);
  for (const TakenPrefix& taken : plan.prefix.taken) {
    stats.cached_sequences += taken.length > 0 ? 1 : 0;
    stats.cached_bytes += plan.prefix.CacheBytes(taken.length);
  }
}

}  // namespace attention
