#include "client/load/load_generator.h"

#include <grpcpp/completion_queue.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "client/lib/answer_codec.h"
#include "client/lib/channel.h"
#include "client/lib/request_codec.h"
#include "client/load/lane.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/status.h"

namespace attention {
namespace {

using Clock = std::chrono::steady_clock;

/// More failures in a row than this end the run: a server that is gone refuses calls as fast as
/// they are made.
constexpr int64_t kMaxFailuresInARow = 200;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The summary is in the last message, whose tensors, if any, are skipped.
absl::StatusOr<AttendResult> SummaryOf(const Lane& lane, bool is_streaming) {
  if (!is_streaming) {
    return DecodeAnswerSummary(lane.answer().back());
  }
  if (lane.answer().empty()) {
    return absl::InternalError("malformed answer: an empty stream");
  }
  ASSIGN_OR_RETURN(StreamMessage message, DecodeStreamMessage(lane.answer().back()));
  if (auto* summary = std::get_if<AttendResult>(&message)) {
    return std::move(*summary);
  }
  return absl::InternalError("malformed answer: the stream ended without a summary");
}

class ClosedLoop {
 public:
  ClosedLoop(const LoadRequest& request, const LoadOptions& options)
      : request_(request), options_(options) {
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    for (int i = 0; i < options.connections; ++i) {
      channels.push_back(MakeChannel(options.server, /*own_connection=*/true));
    }
    for (int i = 0; i < options.concurrency; ++i) {
      lanes_.push_back(std::make_unique<Lane>(channels[i % options.connections], request,
                                              options.timeout, queue_));
    }
    window_start_ = Clock::now() + absl::ToChronoNanoseconds(options.warmup);
    window_end_ = window_start_ + absl::ToChronoNanoseconds(options.duration);
  }

  LoadResult Run() {
    result_.window = options_.duration;
    for (const auto& lane : lanes_) {
      lane->Start(/*keep_all=*/false);
    }
    size_t under_way = lanes_.size();
    void* tag = nullptr;
    bool ok = false;
    while (under_way > 0 && queue_.Next(&tag, &ok)) {
      Lane& lane = *static_cast<Lane*>(tag);
      if (!lane.Advance(ok)) {
        continue;
      }
      const Clock::time_point now = Clock::now();
      CountCpu(now);
      Count(lane, now);
      if (now < window_end_ && !result_.gave_up) {
        lane.Start(IsSampleDue(now));
      } else {
        --under_way;
      }
    }
    queue_.Shutdown();
    while (queue_.Next(&tag, &ok)) {
    }
    return std::move(result_);
  }

 private:
  /// Samples are due at even distances over the window.
  bool IsSampleDue(Clock::time_point now) {
    const auto due = window_start_ + samples_started_ * (window_end_ - window_start_) /
                                         std::max(1, options_.num_samples);
    if (samples_started_ >= options_.num_samples || now < due) {
      return false;
    }
    ++samples_started_;
    return true;
  }

  void CountCpu(Clock::time_point now) {
    if (!cpu_start_.has_value() && now >= window_start_) {
      cpu_start_ = {now, CpuSeconds()};
    } else if (result_.client_cpu_share == 0.0 && now >= window_end_ && cpu_start_.has_value()) {
      const std::chrono::duration<double> elapsed = now - cpu_start_->at;
      result_.client_cpu_share = (CpuSeconds() - cpu_start_->cpu_seconds) / elapsed.count();
    }
  }

  void Count(Lane& lane, Clock::time_point now) {
    if (!lane.status().ok()) {
      CountError(ToAbslStatus(lane.status()));
    } else if (now < window_start_ || now >= window_end_) {
      failures_in_a_row_ = 0;
    } else {
      CountAnswer(lane, now);
    }
  }

  void CountError(const absl::Status& status) {
    const std::string code = absl::StatusCodeToString(status.code());
    ++result_.errors[code];
    result_.error_texts.try_emplace(code, status.message());
    result_.gave_up = ++failures_in_a_row_ > kMaxFailuresInARow;
  }

  void CountAnswer(Lane& lane, Clock::time_point now) {
    const absl::StatusOr<AttendResult> summary = SummaryOf(lane, request_.is_streaming);
    if (!summary.ok()) {
      CountError(summary.status());
      return;
    }
    failures_in_a_row_ = 0;
    result_.latency_ns.Record(std::chrono::nanoseconds(now - lane.started()).count());
    if (request_.is_streaming) {
      result_.first_message_ns.Record(
          std::chrono::nanoseconds(*lane.first_message() - lane.started()).count());
    }
    result_.answered_bytes += lane.answered_bytes();
    result_.queue_ns += absl::ToInt64Nanoseconds(summary->timings.queue);
    result_.compute_ns += absl::ToInt64Nanoseconds(summary->timings.compute);
    result_.batch_requests += summary->batch.requests;
    if (lane.keeps_all()) {
      result_.samples.push_back(lane.answer());
    }
  }
  struct CpuMark {
    Clock::time_point at;
    double cpu_seconds = 0.0;
  };

  const LoadRequest& request_;
  const LoadOptions& options_;
  Clock::time_point window_start_;
  Clock::time_point window_end_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  LoadResult result_;
  std::optional<CpuMark> cpu_start_;
  int samples_started_ = 0;
  int64_t failures_in_a_row_ = 0;
};

}  // namespace

LoadResult RunClosedLoop(const LoadRequest& request, const LoadOptions& options) {
  return ClosedLoop(request, options).Run();
}

}  // namespace attention
