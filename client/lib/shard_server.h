// One server of a ShardedSession: a session of bare attention whose sequences are pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/decode_stream.h"
#include "client/lib/sharded_session.h"

namespace attention {

/// What a page is to do: add keys, answer a query, or both. Tensors are borrowed.
struct PageStep {
  size_t page = 0;  // its index in the sequence
  size_t server = 0;
  int64_t sequence = 0;  // on that server
  /// [n, H, D]; n may be 0.
  const Tensor* query = nullptr;
  /// The position of the first row of the query, counted from the first token of the page.
  int64_t query_offset = 0;
  /// [m, Hkv, D] and [m, Hkv, Dv]; m may be 0.
  Tensor key, value;
  absl::StatusOr<AttendResult> answer = absl::UnknownError("not sent");
};

/// One thread at a time. Errors of its stream are those of DecodeStream; after one it is lost, and
/// its pages are gone, until Connect opens a session anew.
class ShardServer {
 public:
  explicit ShardServer(Shard shard) : shard_(std::move(shard)) {}

  const Shard& shard() const { return shard_; }
  const std::string& name() const { return shard_.connection.server; }
  /// Whether it was connected, and its stream is broken.
  bool is_lost() const { return stream_ != nullptr && !stream_->status().ok(); }
  /// REQUIRES: it has been connected.
  const absl::Status& status() const { return stream_->status(); }

  /// Opens a session if there is none, or it is lost. On an error everything is as before.
  absl::Status Connect(const DecodeStreamOptions& terms, const v1::OpenSession& open);
  /// Makes an empty page; returns its sequence. REQUIRES: it has been connected.
  absl::StatusOr<int64_t> MakePage();
  /// REQUIRES: the same.
  absl::Status TruncatePage(int64_t sequence, int64_t length);

  /// Sends steps from the front of `steps` on, until their requests and answers have about
  /// kBytesAtATime bytes; at least one. Returns how many. A step that cannot be sent has its error
  /// as its answer.
  size_t Send(std::span<PageStep* const> steps);
  /// Waits for the answers to what Send has sent.
  void Receive();

 private:
  Shard shard_;
  std::unique_ptr<DecodeStream> stream_;
  int64_t next_sequence_ = 1;  // sequence 0 stays empty: pages are forks of it
  std::vector<PageStep*> sent_;
};

/// Runs all steps, on all servers at once. Steps of one page run in their order.
void RunPageSteps(std::span<ShardServer> servers, std::vector<PageStep>& steps);

}  // namespace attention
