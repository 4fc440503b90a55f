#include "client/load/lane_pool.h"

namespace attention {

LanePool::LanePool(const EncodedLoad& load, const LoadOptions& options,
                   const LoadChannels& channels, grpc::CompletionQueue& queue)
    : load_(load), options_(options), channels_(channels), queue_(queue) {}

Lane& LanePool::Make() {
  MutexLock lock(mutex_);
  return MakeLocked();
}

Lane* LanePool::Take(int max_lanes) {
  MutexLock lock(mutex_);
  if (!free_.empty()) {
    Lane* const lane = free_.back();
    free_.pop_back();
    return lane;
  }
  return std::ssize(lanes_) < max_lanes ? &MakeLocked() : nullptr;
}

void LanePool::GiveBack(Lane& lane) {
  lane.Clear();
  MutexLock lock(mutex_);
  free_.push_back(&lane);
}

Lane& LanePool::MakeLocked() {
  lanes_.push_back(std::make_unique<Lane>(channels_[lanes_.size() % channels_.size()],
                                          *load_.protocol, options_.timeout, queue_));
  return *lanes_.back();
}

}  // namespace attention
