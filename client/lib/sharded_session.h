// A sequence whose keys and values are spread over several servers, which know nothing of each
// other. SHARDED.md says when that pays.
//
//   ShardedSessionOptions options;
//   options.shards = {{{.server = "node-a:8001"}, 1 << 20}, {{.server = "node-b:8001"}}};
//   options.heads.set_num_heads(8);
//   options.heads.set_head_dim(64);
//   ASSIGN_OR_RETURN(auto session, ShardedSession::Open(options));
//   ASSIGN_OR_RETURN(AttendResult prompt, session->Step(query, key, value));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/lib/attend_request.h"
#include "client/lib/connection_options.h"
#include "core/tensor/tensor.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// A server, and its share of the sequence.
struct Shard {
  /// One server, not a list.
  ConnectionOptions connection = {};
  /// The tokens that it takes: whole pages. 0: all that come.
  int64_t max_tokens = 0;
};

struct ShardedSessionOptions {
  /// Pages go to the first until its share is full, then to the next.
  std::vector<Shard> shards;
  v1::AttentionHeads heads;
  /// Those of OpenSession, whose positions are those of the whole sequence. Not supported:
  /// return_weights, weights_top_k, and any similarity but DOT_PRODUCT.
  v1::AttentionOptions options;
  v1::DataType cache_dtype = v1::FP32;
  /// A multiple of kShardPageTokens. Each page answers each query by itself: larger pages send
  /// less, and the cuts between servers stand further apart. Answers have other bits with another
  /// size.
  int64_t page_tokens = 2048;
  /// The maximum wait for the answer to an action of a server; after it the server counts as lost.
  absl::Duration timeout = absl::Seconds(30);
  /// Deadline of each server's stream as a whole.
  absl::Duration lifetime = absl::Hours(24);
};

inline constexpr int64_t kShardPageTokens = 2048;

/// Tokens [first, first + count) of the sequence, and the server that holds or held them.
struct ShardRange {
  int64_t first = 0;
  int64_t count = 0;
  std::string server;

  bool operator==(const ShardRange&) const = default;
};

/// One thread at a time. Every page of page_tokens tokens is a sequence of its own in a session of
/// bare attention on some server. A query goes to all pages, on all servers at once, and the
/// answers are merged in the order of positions: the bits of a result depend neither on which
/// server holds which page nor, with an FP32 cache, on how the sequence was divided into steps.
///
/// A call that fails leaves the sequence as it was. A server whose stream breaks is lost, with the
/// tokens that it held: Step and Append are UNAVAILABLE, and name server and range, until
/// AppendRange has brought those tokens to a server. Tokens elsewhere stay where they are.
class ShardedSession {
 public:
  /// Connects to the first server; each of the others when its first page begins.
  /// INVALID_ARGUMENT for options that are wrong, errors of DecodeStream::Open, and the server's.
  static absl::StatusOr<std::unique_ptr<ShardedSession>> Open(const ShardedSessionOptions& options);
  ~ShardedSession();

  /// Adds n tokens and attends with their rows, which also see all earlier tokens. Query [n, H, D],
  /// key [n, Hkv, D], value [n, Hkv, Dv]; n >= 1; all of heads.dtype. Returns output [n, H, Dv] and
  /// log_sum_exp [H, n] over all keys. RESOURCE_EXHAUSTED when all shares are full.
  absl::StatusOr<AttendResult> Step(const Tensor& query, const Tensor& key, const Tensor& value);
  /// Adds n tokens that nobody asks.
  absl::Status Append(const Tensor& key, const Tensor& value);

  /// Brings back lost tokens from `first` on: those of whole lost pages. They go to `shard`,
  /// whatever its share: a server that is known, also a lost one that is there again, or one more
  /// server.
  absl::Status AppendRange(int64_t first, const Tensor& key, const Tensor& value,
                           const Shard& shard);

  int64_t length() const;
  /// Where the tokens are, in the order of positions; lost ones are left out.
  std::vector<ShardRange> held() const;
  /// The lost tokens, in the order of positions.
  std::vector<ShardRange> missing() const;

 private:
  class Impl;
  explicit ShardedSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attention
