// What a session keeps between the steps of a stream.
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

namespace attention {

/// What its sequences run through.
struct SessionTarget {
  /// Null: attention without weights.
  std::shared_ptr<const Model> model;
  /// Of the model; null: its whole stack.
  std::optional<int64_t> layer;
  /// Makes the caches of an empty sequence, one for each layer that runs.
  std::function<absl::StatusOr<std::vector<KvCache>>()> make_caches;
};

/// What an opened session is.
struct SessionPlan {
  SessionTarget target;
  /// Its steps are requests with these fields: `options` and, of a model, `layer`; no input yet.
  v1::AttendRequest step;
  /// Without a model: what its tensors are like, defaults filled in.
  v1::AttentionHeads heads;
  /// Zero: it ends with its stream, however that ends.
  absl::Duration time_to_live;
};

/// Tokens, and their keys and values in each layer that runs. One action at a time: whoever makes
/// it busy may touch the rest.
struct SessionSequence {
  std::vector<KvCache> caches;
  int64_t length = 0;
  bool is_busy = false;
};

/// What a session holds; what forks share counts for each.
struct SessionUse {
  int64_t sequences = 0;
  int64_t tokens = 0;
  int64_t cache_bytes = 0;
};

/// Not thread-safe, but for what is said to be.
class Session {
 public:
  static constexpr int64_t kMaxSequences = 1024;
  static constexpr int64_t kMaxSequenceNumber = 65535;

  explicit Session(SessionPlan plan) : plan_(std::move(plan)) {}

  /// From any thread.
  const SessionPlan& plan() const { return plan_; }

  /// Makes an empty sequence. REQUIRES: it is not there.
  absl::Status Add(int64_t number);
  /// NOT_FOUND names the number.
  absl::StatusOr<SessionSequence*> Find(int64_t number);
  /// INVALID_ARGUMENT for a number out of range; ALREADY_EXISTS for one that is taken;
  /// RESOURCE_EXHAUSTED past kMaxSequences. REQUIRES: `parent` is the caller's.
  absl::Status Fork(SessionSequence& parent, int64_t number);
  /// Ends the sequence. REQUIRES: it is the caller's.
  void Release(int64_t number) { sequences_.erase(number); }

  /// Of sequences that are busy, what they were before.
  SessionUse use() const;

 private:
  const SessionPlan plan_;
  std::map<int64_t, SessionSequence> sequences_;
};

/// Room for `tokens` more in each cache, or in none. RESOURCE_EXHAUSTED as KvCache::Reserve.
absl::Status ReserveTokens(SessionSequence& sequence, int64_t tokens);
/// Of all caches of the sequence when it has so many more tokens.
size_t CacheBytesWith(const SessionSequence& sequence, int64_t tokens);
/// INVALID_ARGUMENT for a length that the sequence does not have.
absl::Status TruncateTokens(SessionSequence& sequence, int64_t length);

}  // namespace attention
