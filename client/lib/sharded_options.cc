#include "client/lib/sharded_options.h"

#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status CheckPages(const char* field, int64_t tokens, int64_t page_tokens, int64_t minimum) {
  return tokens >= minimum && tokens % page_tokens == 0
             ? absl::OkStatus()
             : WrongShards(field, ": expected a multiple of ", page_tokens, " from ", minimum,
                           " on, found ", tokens);
}

}  // namespace

absl::Status CheckShare(const Shard& shard, int64_t page_tokens) {
  return CheckPages("max_tokens", shard.max_tokens, page_tokens, 0);
}

absl::Status CheckShardedOptions(const ShardedSessionOptions& options) {
  if (options.shards.empty()) {
    return WrongShards("shards: expected at least one, found none");
  }
  RETURN_IF_ERROR(
      CheckPages("page_tokens", options.page_tokens, kShardPageTokens, kShardPageTokens));
  for (const Shard& shard : options.shards) {
    RETURN_IF_ERROR(CheckShare(shard, options.page_tokens));
  }
  const v1::AttentionOptions& wanted = options.options;
  if (wanted.return_weights() || wanted.weights_top_k() != 0) {
    return WrongShards("options: expected no weights of a sequence on several servers, found ",
                       wanted.return_weights() ? "return_weights" : "weights_top_k");
  }
  if (wanted.similarity() != v1::DOT_PRODUCT) {
    return WrongShards("options.similarity: expected DOT_PRODUCT, found ",
                       v1::Similarity_Name(wanted.similarity()));
  }
  if (!wanted.sinks().empty() && wanted.sinks_size() != options.heads.num_heads()) {
    return WrongShards("options.sinks: expected no value or one for each of ",
                       options.heads.num_heads(), " heads, found ", wanted.sinks_size());
  }
  return absl::OkStatus();
}

v1::OpenSession OpenOf(const ShardedSessionOptions& options) {
  v1::OpenSession open;
  *open.mutable_heads() = options.heads;
  *open.mutable_options() = options.options;
  open.mutable_options()->clear_sinks();
  open.mutable_options()->set_return_log_sum_exp(true);
  open.set_cache_dtype(options.cache_dtype);
  return open;
}

}  // namespace attention
