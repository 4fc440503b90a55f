// The arguments of a ShardedSession: its options, and the rows of a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/lib/connection_options.h"
#include "core/tensor/tensor.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// A server, and its share of the sequence.
struct Shard {
  /// The connection to exactly one server.
  ConnectionOptions connection = {};
  /// The maximum number of tokens that the server takes: a multiple of page_tokens. 0: no maximum.
  int64_t max_tokens = 0;
};

/// `page_tokens` is a multiple of this number.
inline constexpr int64_t kShardPageTokens = 2048;

struct ShardedSessionOptions {
  /// Pages go to the first server until its share is full, then to the next.
  std::vector<Shard> shards;
  v1::AttentionHeads heads;
  /// The options of OpenSession; positions are those of the whole sequence. return_weights,
  /// weights_top_k and any similarity but DOT_PRODUCT are INVALID_ARGUMENT.
  v1::AttentionOptions options;
  v1::DataType cache_dtype = v1::FP32;
  /// The number of tokens of a page, a multiple of kShardPageTokens. Each page answers each query
  /// by itself: larger pages need fewer messages, but then shares and lost ranges are multiples of
  /// a larger number. The bits of the answers depend on this number.
  int64_t page_tokens = kShardPageTokens;
  /// The maximum wait for the answer to an action of a server; after it the server is lost.
  absl::Duration timeout = absl::Seconds(30);
  /// The deadline of each server's stream as a whole.
  absl::Duration lifetime = absl::Hours(24);
};

/// Returns OK, or INVALID_ARGUMENT that names the wrong field, what was expected and what was
/// found.
absl::Status CheckShardedOptions(const ShardedSessionOptions& options);
/// Does the same for the tokens of a shard: 0, or a multiple of the `page_tokens` of a page.
absl::Status CheckShare(const Shard& shard, int64_t page_tokens);

/// Returns INVALID_ARGUMENT unless key is [n, Hkv, D] and value [n, Hkv, Dv], n >= 1.
absl::Status CheckShardKeys(const v1::AttentionHeads& heads, const Tensor& key,
                            const Tensor& value);
/// Returns INVALID_ARGUMENT unless query is [rows, H, D].
absl::Status CheckShardQuery(const v1::AttentionHeads& heads, const Tensor& query, int64_t rows);

/// Returns the session that each server is asked to open. It has no sinks: they join when the
/// answers are merged.
v1::OpenSession OpenOf(const ShardedSessionOptions& options);

}  // namespace attention
