#include "server/services/plan/plan_prefix.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/runtime/status_macros.h"
#include "server/services/plan/plan_tokens.h"
#include "server/sessions/session.h"

namespace attention {
namespace {

bool IsZero(int32_t number) { return number == 0; }

// Returns whether the plan computes sequences of tokens from their first on, and nothing but their
// rows.
bool BeginsWithTokens(const AttendPlan& plan) {
  return plan.model != nullptr && plan.key.layer == kWholeStack && plan.is_token_request &&
         plan.cached_len == 0 && plan.weights_choice.layers.empty() &&
         std::all_of(plan.type_ids.begin(), plan.type_ids.end(), IsZero) &&
         !HasPadding(*plan.model, plan.ids);
}

// Returns whether the rotations of a sequence are those of a shorter and a longer one too.
bool CanGrow(const AttendPlan& plan, const PlannedSequence& sequence) {
  return sequence.query.rows == 0 || plan.model->CheckGrowth(1, sequence.query.rows - 1).ok();
}

// Returns whether a run with f32 caches has the bits of a run without caches. Layers that compute
// in bf16 round keys otherwise than any cache does.
bool KeepsBitsInCaches(const Model& model) {
  for (int64_t i = 0; i < std::ssize(model.info().layers); ++i) {
    if (model.layer(i).compute() != Dtype::kF32) {
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

// Returns the shapes of a sequence's caches; none: the model has no caches.
std::vector<KvCacheShape> ShapesOf(const Model& model, KeyValueStorage storage,
                                   int64_t page_tokens) {
  std::vector<KvCacheShape> shapes;
  const absl::StatusOr<std::vector<KvCache>> caches =
      model.MakeCaches(storage, nullptr, page_tokens);
  for (size_t i = 0; caches.ok() && i < caches->size(); ++i) {
    shapes.push_back((*caches)[i].shape());
  }
  return shapes;
}

// Takes the pages that `taken` holds. From here on the caches keep them.
void TakeHeld(PrefixCache& cache, TakenPrefix& taken) {
  Prefix found = cache.Take(taken.hold);
  taken.caches = std::move(found.caches);
  taken.hidden = std::move(found.hidden);
  taken.hold = PrefixHold();
}

// Finds the prefix of one sequence. Its caches are those of a session, which reserves their room,
// or else its own. `room` is what the request may still take.
TakenPrefix TakeOne(const PlannedPrefix& prefix, std::span<const int32_t> ids, bool is_session,
                    int64_t& room) {
  PrefixCache& cache = prefix.table->prefixes();
  const int64_t length = std::ssize(ids);
  const int64_t bytes = is_session ? 0 : prefix.CacheBytes(length);
  TakenPrefix taken;
  if (length == 0 || bytes > room) {
    return taken;
  }
  taken.hold = cache.Hold(prefix.owner, ids, length - 1);
  taken.length = taken.hold.length();
  room -= taken.length > 0 ? bytes : 0;
  if (is_session && taken.length > 0) {
    TakeHeld(cache, taken);
  }
  return taken;
}

}  // namespace

absl::Status PlanPrefixes(SessionTable& table, const RequestClass& request_class,
                          const PlanTerms& terms, AttendPlan& plan) {
  if (!table.prefixes().is_on() || !BeginsWithTokens(plan)) {
    return absl::OkStatus();
  }
  const std::optional<KeyValueStorage> storage = StorageOf(plan);
  if (!storage.has_value() ||
      !std::all_of(plan.sequences.begin(), plan.sequences.end(),
                   [&](const PlannedSequence& sequence) { return CanGrow(plan, sequence); })) {
    return absl::OkStatus();
  }
  PlannedPrefix& prefix = plan.prefix;
  prefix.shapes = ShapesOf(*plan.model, *storage, table.prefixes().page_tokens());
  if (prefix.shapes.empty()) {
    return absl::OkStatus();
  }
  const int64_t bytes = prefix.BytesPerSequence() * std::ssize(plan.sequences);
  RETURN_IF_ERROR(bytes > kSmallPlanBytes ? terms.Reserve(bytes) : absl::OkStatus());
  prefix.table = &table;
  prefix.owner = {plan.model, *storage, request_class.account, request_class.tenant};
  prefix.taken.reserve(plan.sequences.size());
  int64_t room = table.prefixes().max_bytes();
  for (const PlannedSequence& sequence : plan.sequences) {
    const SequenceRows& rows = sequence.query;
    const auto ids = std::span<const int32_t>(plan.ids).subspan(rows.first_row, rows.rows);
    prefix.taken.push_back(TakeOne(prefix, ids, /*is_session=*/plan.caches != nullptr, room));
  }
  return absl::OkStatus();
}

bool TakePages(AttendPlan& plan) {
  PlannedPrefix& prefix = plan.prefix;
  if (plan.caches != nullptr) {
    return true;  // the session has them
  }
  for (size_t i = 0; i < prefix.taken.size(); ++i) {
    TakenPrefix& taken = prefix.taken[i];
    if (taken.length == 0) {
      continue;
    }
    TakeHeld(prefix.table->prefixes(), taken);
    const int64_t rows = plan.sequences[i].query.rows - taken.length;
    if (!prefix.table->ReserveFor(prefix.owner.account, taken.caches, rows, MayEndParked::kNo)
             .ok()) {
      return false;
    }
  }
  return true;
}

void ForgoPrefixes(AttendPlan& plan) {
  for (TakenPrefix& taken : plan.prefix.taken) {
    taken = TakenPrefix();
  }
}

}  // namespace attention
