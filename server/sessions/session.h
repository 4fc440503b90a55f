// The state of a session between its steps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/attention/kv_cache.h"
#include "core/models/model.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/scheduling/fair_budget.h"
#include "server/sessions/cache_pages.h"

namespace attention {

/// The model and layer that the sequences run through.
struct SessionTarget {
  /// Null: attention without a model.
  std::shared_ptr<const Model> model;
  /// The layer of the model; null: the whole stack.
  std::optional<int64_t> layer;
  /// Makes the caches of an empty sequence, one for each layer that runs.
  std::function<absl::StatusOr<std::vector<KvCache>>()> make_caches;
};

/// The properties of an open session.
struct SessionPlan {
  SessionTarget target;
  /// The fields that all steps have: `options` and, with a model, `layer`; no input.
  v1::AttendRequest step;
  /// Without a model: the shapes and dtype of its tensors, with defaults filled in.
  v1::AttentionHeads heads;
  /// The time for which it can be resumed; zero: it ends with its stream.
  absl::Duration time_to_live;
};

/// A sequence: its tokens, and their keys and values in each layer that runs. It has one action at
/// a time, and only the action that makes it busy changes the other members. `length` and
/// `cache_bytes` change under the stream's lock (StreamSession), since Session::use reads them.
struct SessionSequence {
  std::vector<KvCache> caches;
  int64_t length = 0;
  bool is_busy = false;
  /// The size of the caches' pages after the last action (SetSize), for Session::use.
  int64_t cache_bytes = 0;
  /// The memory of the tables of shared pages: of a fork, or of a prefix. Null: there is none.
  std::unique_ptr<FairBudget::Part> tables = nullptr;
};

/// The use of a session. Memory that forks share counts for each of them.
struct SessionUse {
  int64_t sequences = 0;
  int64_t tokens = 0;
  int64_t cache_bytes = 0;
};

/// A session. Not thread-safe, except where noted.
class Session {
 public:
  static constexpr int64_t kMaxSequences = 1024;
  static constexpr int64_t kMaxSequenceNumber = 65535;

  /// Holds `memory`, that of the plan, as long as it lives.
  explicit Session(SessionPlan plan, std::unique_ptr<FairBudget::Part> memory = nullptr)
      : plan_(std::move(plan)), memory_(std::move(memory)) {}

  /// Returns the plan. Any thread may call it.
  const SessionPlan& plan() const { return plan_; }

  /// Makes an empty sequence. REQUIRES: the number is free.
  absl::Status Add(int64_t number);
  /// Returns the sequence. NOT_FOUND names the number.
  absl::StatusOr<SessionSequence*> Find(int64_t number);
  /// Copies a sequence. INVALID_ARGUMENT for a number out of range; ALREADY_EXISTS for a number in
  /// use; RESOURCE_EXHAUSTED beyond kMaxSequences. REQUIRES: `parent` is busy with the caller's
  /// action.
  absl::Status Fork(SessionSequence& parent, int64_t number,
                    std::unique_ptr<FairBudget::Part> tables = nullptr);
  /// Ends the sequence. REQUIRES: it is busy with the caller's action.
  void Release(int64_t number) { sequences_.erase(number); }

  /// Returns what the session holds. Busy sequences count as they were before.
  SessionUse use() const;
  /// Returns the pages of all sequences, valid until one changes. REQUIRES: none is busy.
  SessionPages pages() const;

 private:
  const SessionPlan plan_;
  const std::unique_ptr<FairBudget::Part> memory_;
  std::map<int64_t, SessionSequence> sequences_;
};

/// Returns the NOT_FOUND of actions on a sequence that does not exist.
absl::Status NoSuchSequence(int64_t number);

/// Returns the memory that ReserveTokens takes once `leaving` of those that share the last page are
/// gone.
KvGrowth GrowthFor(const std::vector<KvCache>& caches, int64_t tokens, int64_t leaving = 0);
/// Reserves room for `tokens` more tokens in each cache, or in none; no cache loses tokens.
/// RESOURCE_EXHAUSTED, with a Refusal, when the memory has no room, or the account has used its
/// share of it: then nothing has changed, except that a cache may keep a larger last page if
/// another session took the room meanwhile.
absl::Status ReserveTokens(std::vector<KvCache>& caches, int64_t tokens);
/// Returns about how many bytes ReserveTokens would copy.
size_t BytesToMove(const SessionSequence& sequence, int64_t tokens);
/// Returns the size of the caches besides their pages.
int64_t TableBytes(const std::vector<KvCache>& caches);
/// Notes the size of the sequence's caches.
void SetSize(SessionSequence& sequence);
/// Truncates the sequence, which may leave its last page larger than it needs. INVALID_ARGUMENT for
/// a length beyond its own.
absl::Status TruncateTokens(SessionSequence& sequence, int64_t length);

}  // namespace attention
