// The lanes of a load, spread over its connections.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/load/encoded_load.h"
#include "client/load/lane.h"
#include "client/load/load_options.h"
#include "core/runtime/mutex.h"

namespace attention {

/// Each with a connection of its own; at least one.
using LoadChannels = std::vector<std::shared_ptr<grpc::Channel>>;

/// Thread-safe.
class LanePool {
 public:
  /// Borrows all four.
  LanePool(const EncodedLoad& load, const LoadOptions& options, const LoadChannels& channels,
           grpc::CompletionQueue& queue);

  /// A new lane, which lives as long as the pool.
  Lane& Make();

  /// A lane without a call: one that was given back, or else a new one; null when there are
  /// `max_lanes` already.
  Lane* Take(int max_lanes);
  /// REQUIRES: `lane` was taken, and its call has ended.
  void GiveBack(Lane& lane);

 private:
  Lane& MakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EncodedLoad& load_;
  const LoadOptions& options_;
  const LoadChannels& channels_;
  grpc::CompletionQueue& queue_;

  Mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_ ABSL_GUARDED_BY(mutex_);
  std::vector<Lane*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
