#include "client/lib/shard_server.h"

#include <cstring>
#include <thread>

#include "core/runtime/contain.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// This many bytes are sent before answers are read: the transport holds them, and they keep a
/// server busy.
constexpr size_t kBytesAtATime = size_t{4} << 20;

/// Returns the approximate size of request and answer, which has about the size of the query.
size_t BytesOf(const PageStep& step) {
  return 2 * step.query->size_bytes() + step.key.size_bytes() + step.value.size_bytes();
}

}  // namespace

Tensor CopyRows(const Tensor& tensor, int64_t first, int64_t count) {
  Shape shape = tensor.shape();
  shape[0] = count;
  Tensor rows(tensor.dtype(), shape);
  if (count > 0) {
    const int64_t row_elements = rows.num_elements() / count;
    std::memcpy(rows.data(), ElementAt(tensor.data(), tensor.dtype(), first * row_elements),
                rows.size_bytes());
  }
  return rows;
}

absl::Status ShardServer::Connect(const DecodeStreamOptions& terms, const v1::OpenSession& open) {
  if (stream_ != nullptr && stream_->status().ok()) {
    return absl::OkStatus();
  }
  DecodeStreamOptions own = terms;
  own.connection = shard_.connection;
  auto stream = DecodeStream::Open(own, open);
  failure_ = stream.status();
  if (stream.ok()) {
    stream_ = *std::move(stream);
    next_sequence_ = 1;
    released_.clear();
  }
  return failure_;
}

absl::Status ShardServer::Use(absl::FunctionRef<absl::Status()> use) {
  RETURN_IF_ERROR(status());
  absl::Status result;
  const absl::Status contained =
      ContainVoid("asking a server for its pages", [&] { result = use(); });
  if (!contained.ok()) {  // answers that nobody reads may follow
    failure_ = contained;
    stream_.reset();
    sent_.clear();
    return contained;
  }
  return result;
}

absl::StatusOr<int64_t> ShardServer::MakePage() {
  const bool is_new = released_.empty();
  const int64_t sequence = is_new ? next_sequence_ : released_.back();
  RETURN_IF_ERROR(Use([&] { return stream_->Fork(0, sequence).status(); }));
  if (is_new) {
    ++next_sequence_;
  } else {
    released_.pop_back();
  }
  return sequence;
}

absl::Status ShardServer::TruncatePage(int64_t sequence, int64_t length) {
  return Use([&] { return stream_->Truncate(sequence, length).status(); });
}

absl::Status ShardServer::ReleasePage(int64_t sequence) {
  return Use([&]() -> absl::Status {
    RETURN_IF_ERROR(stream_->Release(sequence).status());
    released_.push_back(sequence);
    return absl::OkStatus();
  });
}

void ShardServer::Run(std::span<PageStep* const> steps) {
  const absl::Status status = Use([&] {
    for (std::span<PageStep* const> rest = steps; !rest.empty();) {
      rest = rest.subspan(Send(rest));
      Receive();
    }
    return absl::OkStatus();
  });
  if (!status.ok()) {
    for (PageStep* const step : steps) {
      step->answer = status;
    }
  }
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
  std::vector<std::jthread> threads;  // joined even if a thread cannot be made
  for (size_t i = 0; i < servers.size(); ++i) {
    if (!of_server[i].empty()) {
      threads.emplace_back([&server = servers[i], &own = of_server[i]] { server.Run(own); });
    }
  }
}

}  // namespace attention
