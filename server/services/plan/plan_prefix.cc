#include "server/services/plan/plan_prefix.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace attention {
namespace {

bool IsZero(int32_t number) { return number == 0; }

// Returns whether the plan computes the begin of sequences of tokens, and nothing but their rows.
bool BeginsWithTokens(const AttendPlan& plan) {
  return plan.model != nullptr && plan.key.layer == kWholeModel && plan.is_token_request &&
         plan.cached_len == 0 && plan.weights_choice.layers.empty() &&
         std::all_of(plan.type_ids.begin(), plan.type_ids.end(), IsZero);
}

// Returns whether the rotations of a sequence are those of a shorter and a longer one too.
bool CanGrow(const AttendPlan& plan, const PlannedSequence& sequence) {
  return sequence.query.rows == 0 || plan.model->CheckGrowth(1, sequence.query.rows - 1).ok();
}

// Returns whether a run with f32 caches has the bits of a run without caches. Layers that compute
// in bf16 round keys otherwise than any cache does.
bool KeepsBitsInCaches(const Model& model) {
  for (int64_t i = 0; i < std::ssize(model.info().layers); ++i) {
    if (model.layer(i).dtype() != Dtype::kF32) {
      return false;
    }
  }
  return true;
}

// Returns the storage of the plan's caches. None: the plan has none and would lose bits by any.
std::optional<KeyValueStorage> StorageOf(const AttendPlan& plan) {
  if (plan.caches != nullptr) {
    return plan.caches->front().shape().storage;
  }
  return KeepsBitsInCaches(*plan.model) ? std::optional(KeyValueStorage::kF32) : std::nullopt;
}

// Takes the prefix of one sequence. Its caches are those of a session, which reserves their room,
// or else its own, whose room is reserved here for a hit and before the computation for a miss.
Prefix TakeOne(SessionTable& table, const PrefixOwner& owner, std::span<const int32_t> ids,
               bool is_session) {
  PrefixCache& cache = table.prefixes();
  const int64_t length = std::ssize(ids);
  if (length == 0) {
    return {};
  }
  Prefix prefix = cache.Find(owner, ids, length - 1);
  if (prefix.length > 0 && !is_session &&
      !ReserveByEviction(table, owner.account, prefix.caches, length - prefix.length)) {
    prefix = {};
  }
  cache.CountUse(prefix.length);
  if (prefix.length > 0 || is_session) {
    return prefix;
  }
  absl::StatusOr<std::vector<KvCache>> caches =
      owner.model->MakeCaches(owner.storage, table.memory(owner.account), cache.page_tokens());
  if (caches.ok()) {
    prefix.caches = *std::move(caches);
  }
  return prefix;
}

}  // namespace

void TakePrefixes(SessionTable& table, const RequestClass& request_class, AttendPlan& plan) {
  if (!table.prefixes().is_on() || !BeginsWithTokens(plan)) {
    return;
  }
  const std::optional<KeyValueStorage> storage = StorageOf(plan);
  if (!storage.has_value() || !plan.model->MakeCaches(*storage, nullptr).ok() ||
      !std::all_of(plan.sequences.begin(), plan.sequences.end(),
                   [&](const PlannedSequence& sequence) { return CanGrow(plan, sequence); })) {
    return;
  }
  plan.prefix.owner = {plan.model, *storage, request_class.account, request_class.tenant};
  for (const PlannedSequence& sequence : plan.sequences) {
    const SequenceRows& rows = sequence.query;
    const auto ids = std::span<const int32_t>(plan.ids).subspan(rows.first_row, rows.rows);
    plan.prefix.taken.push_back(
        TakeOne(table, plan.prefix.owner, ids, /*is_session=*/plan.caches != nullptr));
  }
  plan.prefix.table = &table;
}

bool ReserveByEviction(SessionTable& table, const std::string& account,
                       std::vector<KvCache>& caches, int64_t tokens) {
  const int64_t length = caches.front().length();
  const auto reserve = [&] {
    return std::all_of(caches.begin(), caches.end(),
                       [&](KvCache& cache) { return cache.Reserve(tokens).ok(); });
  };
  bool is_reserved = reserve();
  while (!is_reserved && table.prefixes().EvictFor(account)) {
    is_reserved = reserve();
  }
  for (size_t i = 0; !is_reserved && i < caches.size(); ++i) {
    caches[i].Truncate(length).IgnoreError();  // gives back what was reserved
  }
  return is_reserved;
}

}  // namespace attention
