// Checks the options of a ShardedSession.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/lib/sharded_session.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

template <typename... What>
absl::Status WrongShards(const What&... what) {
  return absl::InvalidArgumentError(absl::StrCat(what...));
}

/// INVALID_ARGUMENT names the field that is wrong, what was expected and what was found.
absl::Status CheckShardedOptions(const ShardedSessionOptions& options);
absl::Status CheckShare(const Shard& shard, int64_t page_tokens);

/// What each server is asked to open. Sinks are left out: they join when answers are merged.
v1::OpenSession OpenOf(const ShardedSessionOptions& options);

}  // namespace attention
