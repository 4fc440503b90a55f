#include "client/lib/sharded_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

template <typename... What>
absl::Status WrongArgument(const What&... what) {
  return absl::InvalidArgumentError(absl::StrCat(what...));
}

absl::Status CheckPages(const char* field, int64_t tokens, int64_t page_tokens, int64_t minimum) {
  return tokens >= minimum && tokens % page_tokens == 0
             ? absl::OkStatus()
             : WrongArgument(field, ": expected a multiple of ", page_tokens, " from ", minimum,
                             " on, found ", tokens);
}

absl::Status CheckShardRows(const char* name, const Tensor& rows, const Shape& expected) {
  return rows.shape() == expected ? absl::OkStatus()
                                  : WrongArgument(name, ": expected ", ShapeText(expected),
                                                  ", found ", ShapeText(rows.shape()));
}

}  // namespace

absl::Status CheckShare(const Shard& shard, int64_t page_tokens) {
  return CheckPages("max_tokens", shard.max_tokens, page_tokens, 0);
}

absl::Status CheckShardedOptions(const ShardedSessionOptions& options) {
  if (options.shards.empty()) {
    return WrongArgument("shards: expected at least one, found none");
  }
  RETURN_IF_ERROR(
      CheckPages("page_tokens", options.page_tokens, kShardPageTokens, kShardPageTokens));
  for (const Shard& shard : options.shards) {
    RETURN_IF_ERROR(CheckShare(shard, options.page_tokens));
  }
  const v1::AttentionOptions& wanted = options.options;
  if (wanted.return_weights() || wanted.weights_top_k() != 0) {
    return WrongArgument("options: expected no weights of a sequence on several servers, found ",
                         wanted.return_weights() ? "return_weights" : "weights_top_k");
  }
  if (wanted.similarity() != v1::DOT_PRODUCT) {
    return WrongArgument("options.similarity: expected DOT_PRODUCT, found ",
                         v1::Similarity_Name(wanted.similarity()));
  }
  if (!wanted.sinks().empty() && wanted.sinks_size() != options.heads.num_heads()) {
    return WrongArgument("options.sinks: expected no value or one for each of ",
                         options.heads.num_heads(), " heads, found ", wanted.sinks_size());
  }
  for (const float sink : wanted.sinks()) {
    if (!std::isfinite(sink)) {
      return WrongArgument("options.sinks: expected finite FP32 numbers, found ", sink);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShardKeys(const v1::AttentionHeads& heads, const Tensor& key,
                            const Tensor& value) {
  const int64_t kv_heads = heads.num_kv_heads() != 0 ? heads.num_kv_heads() : heads.num_heads();
  const int64_t width = heads.value_head_dim() != 0 ? heads.value_head_dim() : heads.head_dim();
  const int64_t rows = key.shape().empty() ? 0 : key.shape()[0];
  if (rows < 1) {
    return WrongArgument("key: expected at least one token, found ", ShapeText(key.shape()));
  }
  RETURN_IF_ERROR(CheckShardRows("key", key, {rows, kv_heads, heads.head_dim()}));
  return CheckShardRows("value", value, {rows, kv_heads, width});
}

absl::Status CheckShardQuery(const v1::AttentionHeads& heads, const Tensor& query, int64_t rows) {
  return CheckShardRows("query", query, {rows, heads.num_heads(), heads.head_dim()});
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
