#include "client/lib/shard_server.h"

#include <utility>

#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// Small enough for the transport to hold, large enough to keep a server busy.
constexpr size_t kBytesAtATime = size_t{4} << 20;

size_t BytesOf(const PageStep& step) {
  // The answer has about the size of the query.
  return 2 * step.query->size_bytes() + step.key.size_bytes() + step.value.size_bytes();
}

}  // namespace

absl::Status ShardServer::Connect(const DecodeStreamOptions& terms, const v1::OpenSession& open) {
  if (stream_ != nullptr && stream_->status().ok()) {
    return absl::OkStatus();
  }
  DecodeStreamOptions own = terms;
  own.connection = shard_.connection;
  ASSIGN_OR_RETURN(stream_, DecodeStream::Open(own, open));
  next_sequence_ = 1;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ShardServer::MakePage() {
  RETURN_IF_ERROR(stream_->Fork(0, next_sequence_).status());
  return next_sequence_++;
}

absl::Status ShardServer::TruncatePage(int64_t sequence, int64_t length) {
  return stream_->Truncate(sequence, length).status();
}

size_t ShardServer::Send(std::span<PageStep* const> steps) {
  size_t count = 0, bytes = 0;
  while (count < steps.size() && (count == 0 || bytes < kBytesAtATime)) {
    PageStep& step = *steps[count++];
    bytes += BytesOf(step);
    StepRequest request;
    request.input = QueryKeyValueInput{.query = step.query,
                                       .key = &step.key,
                                       .value = &step.value,
                                       .query_offsets = {step.query_offset}};
    const absl::Status status = stream_->SendStep(request, step.sequence);
    if (status.ok()) {
      sent_.push_back(&step);
    } else {
      step.answer = status;
    }
  }
  return count;
}

void ShardServer::Receive() {
  if (sent_.empty()) {
    return;
  }
  std::vector<absl::StatusOr<StepResult>> answers = stream_->ReceiveSteps();
  for (size_t i = 0; i < sent_.size(); ++i) {
    if (answers[i].ok()) {
      sent_[i]->answer = std::move(answers[i]->answer);
    } else {
      sent_[i]->answer = answers[i].status();
    }
  }
  sent_.clear();
}

void RunPageSteps(std::span<ShardServer> servers, std::vector<PageStep>& steps) {
  std::vector<std::vector<PageStep*>> of_server(servers.size());
  for (PageStep& step : steps) {
    of_server[step.server].push_back(&step);
  }
  std::vector<size_t> done(servers.size(), 0);
  for (size_t left = steps.size(); left > 0;) {
    for (size_t i = 0; i < servers.size(); ++i) {
      const size_t sent =
          servers[i].Send(std::span<PageStep* const>(of_server[i]).subspan(done[i]));
      done[i] += sent;
      left -= sent;
    }
    for (ShardServer& server : servers) {
      server.Receive();
    }
  }
}

}  // namespace attention
