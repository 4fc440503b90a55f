#include "client/load/lane.h"

#include <utility>

namespace attention {

Lane::Lane(const Protocol& protocol, absl::Duration timeout, grpc::CompletionQueue& queue)
    : protocol_(protocol), timeout_(timeout), queue_(queue) {}

void Lane::Start(LaneCall call) {
  const MutexLock starting(starting_);
  Clear();
  call_ = std::move(call);
  context_.emplace();
  context_->set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
  answered_bytes_ = 0;
  first_message_.reset();
  message_gaps_ns_.clear();
  started_ = Clock::now();
  if (protocol_.is_streaming()) {
    stream_ = stub_->PrepareCall(&*context_, protocol_.method(), &queue_);
    step_ = Step::kConnect;
    stream_->StartCall(this);
  } else {
    unary_ = stub_->PrepareUnaryCall(&*context_, protocol_.method(), call_.bytes, &queue_);
    step_ = Step::kFinish;
    unary_->StartCall();
    unary_->Finish(&message_, &status_, this);
  }
}

bool Lane::Advance(bool ok) {
  // The event can arrive at its thread before the other thread has left Start.
  {
    const MutexLock started(starting_);
  }
  if (step_ == Step::kFinish) {
    if (!protocol_.is_streaming() && status_.ok()) {
      TakeMessage();
    }
    return true;
  }
  if (step_ == Step::kReceive && ok) {
    TakeMessage();
  }
  if (!ok) {
    step_ = Step::kFinish;
    stream_->Finish(&status_, this);
  } else if (step_ == Step::kConnect) {
    step_ = Step::kSend;
    stream_->WriteLast(call_.bytes, grpc::WriteOptions(), this);
  } else {
    step_ = Step::kReceive;
    stream_->Read(&message_, this);
  }
  return false;
}

void Lane::Clear() {
  unary_.reset();
  stream_.reset();
  context_.reset();
  message_.Clear();
  answer_.clear();
}

void Lane::TakeMessage() {
  const Clock::time_point now = Clock::now();
  if (first_message_.has_value()) {
    message_gaps_ns_.push_back(std::chrono::nanoseconds(now - last_message_).count());
  } else {
    first_message_ = now;
  }
  last_message_ = now;
  answered_bytes_ += static_cast<int64_t>(message_.Length());
  if (!call_.keep_all) {
    answer_.clear();
  }
  answer_.push_back(std::move(message_));
  message_.Clear();
}

LanePool::LanePool(const EncodedLoad& load, const LoadOptions& options,
                   const LoadChannels& channels, grpc::CompletionQueue& queue)
    : load_(load), options_(options), queue_(queue), stubs_(channels.begin(), channels.end()) {}

Lane* LanePool::Take(int max_lanes) {
  MutexLock lock(mutex_);
  if (free_.empty() && std::ssize(lanes_) >= max_lanes) {
    return nullptr;
  }
  if (free_.empty()) {
    lanes_.push_back(std::make_unique<Lane>(*load_.protocol, options_.timeout, queue_));
    free_.push_back(lanes_.back().get());
  }
  Lane* const lane = free_.back();
  free_.pop_back();
  lane->Use(stubs_[num_taken_++ % stubs_.size()]);
  return lane;
}

void LanePool::GiveBack(Lane& lane) {
  lane.Clear();
  MutexLock lock(mutex_);
  free_.push_back(&lane);
}

}  // namespace attention
