// A sequence whose keys and values are spread over several servers, which know nothing of each
// other. SHARDED.md says when that pays.
//
//   ShardedSessionOptions options;
//   options.shards = {{{.server = "node-a:8001"}, 1 << 20}, {{.server = "node-b:8001"}}};
//   options.heads.set_num_heads(8);
//   options.heads.set_head_dim(64);
//   auto session = ShardedSession::Open(options);  // absl::StatusOr
//   absl::StatusOr<AttendResult> prompt = (*session)->Step(query, key, value);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/decode_stream.h"
#include "client/lib/sharded_options.h"

namespace attention {

class ShardPages;
struct ShardPage;

/// Tokens [first, first + count) of the sequence, and the server that holds or held them.
struct ShardRange {
  int64_t first = 0;
  int64_t count = 0;
  std::string server;

  bool operator==(const ShardRange&) const = default;
};

/// A server that takes no more tokens, and the error that is the reason.
struct ShardFailure {
  std::string server;
  absl::Status status;
};

/// A session over several servers. Only one thread at a time may use it.
///
/// Every page of page_tokens tokens is a sequence of its own in a session of attention without a
/// model on one of the servers. A query goes to all pages, on all servers at once, and the answers
/// are merged in the order of positions: the bits of a result depend neither on which server holds
/// which page nor, with an FP32 cache, on how the sequence was divided into steps, unless `causal`
/// is false. A step on a server has at most 2,048 rows, and as many as the
/// server takes in a message, however many a call has.
///
/// After a call that fails, the sequence has as many tokens as before. A server whose stream breaks
/// is lost, and its tokens are missing, as are those of a page from which a server did not take new
/// tokens back: Step and Append are UNAVAILABLE, and name server and range, until AppendRange has
/// brought those tokens to a server. Tokens elsewhere stay where they are. A
/// server that cannot be reached when its first page is due is passed over. failures() names both;
/// they are tried again when all others are full.
class ShardedSession {
 public:
  /// Connects to the first server, and to each of the others when its first page begins.
  /// INVALID_ARGUMENT for options that are wrong; else errors of DecodeStream::Open, and the first
  /// server's.
  static absl::StatusOr<std::unique_ptr<ShardedSession>> Open(const ShardedSessionOptions& options);
  ~ShardedSession();

  /// Adds n tokens, and returns the attention of their rows to themselves and to all earlier
  /// tokens; with `causal` false, of each row to all n. Query is [n, H, D], key [n, Hkv, D], value
  /// [n, Hkv, Dv], all of heads.dtype; n >= 1. The result has output [n, H, Dv] and log_sum_exp [H,
  /// n], over all keys. RESOURCE_EXHAUSTED when all shares are full.
  absl::StatusOr<AttendResult> Step(const Tensor& query, const Tensor& key, const Tensor& value);
  /// Adds n tokens without a query. Errors are those of Step.
  absl::Status Append(const Tensor& key, const Tensor& value);

  /// Sends missing tokens again, from `first` on: those of whole missing pages. They go to `shard`,
  /// even if its share is full: a known server, one that was lost and is back, or a new one. A
  /// known server has the share of `shard` from now on, and its connection when it is connected
  /// again. INVALID_ARGUMENT unless exactly such tokens are given; else the server's error.
  absl::Status AppendRange(int64_t first, const Tensor& key, const Tensor& value,
                           const Shard& shard);

  /// Returns the number of tokens, including those that are missing.
  int64_t length() const;
  /// Returns where the tokens are, in the order of positions, without those that are missing.
  std::vector<ShardRange> held() const;
  /// Returns the tokens of lost servers, in the order of positions.
  std::vector<ShardRange> missing() const;
  /// Returns the servers that were lost or could not be reached, in the order of the shards.
  std::vector<ShardFailure> failures() const;

 private:
  /// Rows of a call of Step.
  struct RowsOfCall {
    int64_t first = 0;
    /// Whether the pages have the keys of all rows of the call already.
    bool has_all_keys = false;
  };

  explicit ShardedSession(const ShardedSessionOptions& options);

  absl::Status MakeRoom(int64_t new_tokens);
  absl::StatusOr<AttendResult> Ask(const Tensor& query, const Tensor& key, const Tensor& value);
  int64_t RowsAtATime(const Tensor& query, const Tensor& key, const Tensor& value) const;
  absl::StatusOr<AttendResult> AskPages(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const RowsOfCall& rows);
  absl::Status FillNext(const Tensor& key, const Tensor& value);
  absl::Status FillPages(std::span<const ShardPage> pages, int64_t first, const Tensor& key,
                         const Tensor& value);
  absl::Status Fail(const absl::Status& status);

  const std::vector<float> sinks_;
  const std::unique_ptr<ShardPages> pages_;
};

}  // namespace attention
