// One server of a ShardedSession: a session of attention without a model, whose sequences are
// pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/decode_stream.h"
#include "client/lib/sharded_options.h"

namespace attention {

/// A step of one page, which adds keys, answers a query, or both. The query is borrowed.
struct PageStep {
  size_t server = 0;
  int64_t sequence = 0;  // on that server
  /// The query, [n, H, D]; n may be 0.
  const Tensor* query = nullptr;
  /// The position of the first row of the query, counted from the first token of the page.
  int64_t query_offset = 0;
  /// The keys [m, Hkv, D] and values [m, Hkv, Dv] to add; m may be 0.
  Tensor key, value;
  absl::StatusOr<AttendResult> answer = absl::UnknownError("not sent");
};

/// Returns a copy of rows [first, first + count) of the first extent.
Tensor CopyRows(const Tensor& tensor, int64_t first, int64_t count);

/// The session of one server. Only one thread at a time may use it. Its errors are those of
/// DecodeStream. After an error of its stream the server is lost, with its pages, until Connect
/// opens a new session.
class ShardServer {
 public:
  explicit ShardServer(Shard shard) : shard_(std::move(shard)) {}

  const Shard& shard() const { return shard_; }
  /// Sets the share, and the connection that the next session has.
  void set_shard(Shard shard) { shard_ = std::move(shard); }
  const std::string& name() const { return shard_.connection.server; }
  /// Returns OK, or why the server takes no pages: Connect failed, the stream broke, or an
  /// exception ended the session.
  const absl::Status& status() const {
    return stream_ == nullptr || !failure_.ok() ? failure_ : stream_->status();
  }

  /// Returns the maximum size of a message in bytes; 0: not known, or not connected.
  int64_t max_message_bytes() const {
    return stream_ == nullptr ? 0 : stream_->opened().max_message_bytes();
  }

  /// Opens a session unless an unbroken one is open.
  absl::Status Connect(const DecodeStreamOptions& terms, const v1::OpenSession& open);
  /// Makes an empty page, and returns its sequence. REQUIRES: Connect succeeded.
  absl::StatusOr<int64_t> MakePage();
  /// Removes the page's tokens from `length` on. REQUIRES: MakePage made it.
  absl::Status TruncatePage(int64_t sequence, int64_t length);
  /// Removes the page. REQUIRES: MakePage made it.
  absl::Status ReleasePage(int64_t sequence);
  /// Runs the steps in their order, and sets their answers. Without memory the session ends, and
  /// all answers are RESOURCE_EXHAUSTED. REQUIRES: Connect succeeded.
  void Run(std::span<PageStep* const> steps);

 private:
  /// Returns the error of the server, or else what `use` of the stream returns. After an exception,
  /// such as that of memory, the session ends with it.
  absl::Status Use(absl::FunctionRef<absl::Status()> use);
  /// Sends the first steps, at least one, until their requests and answers have about kBytesAtATime
  /// bytes. Returns their number.
  size_t Send(std::span<PageStep* const> steps);
  void Receive();

  Shard shard_;
  std::unique_ptr<DecodeStream> stream_;
  absl::Status failure_;  // of Connect, or the exception
  /// Sequence 0 stays empty: pages are forks of it.
  int64_t next_sequence_ = 1;
  std::vector<int64_t> released_;  // sequences below next_sequence_
  std::vector<PageStep*> sent_;
};

/// Runs all steps, each server's on a thread of its own: none waits for another. Steps of one page
/// run in their order.
void RunPageSteps(std::span<ShardServer> servers, std::vector<PageStep>& steps);

}  // namespace attention
