#include "core/attention/kv_append.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/attention/check_options.h"
#include "core/attention/kv_page.h"
#include "core/kernels/attention/attention_plan.h"
#include "core/runtime/call_field.h"
#include "core/runtime/status_macros.h"

namespace attention {

/// The rows to append: the prepared keys, and the values.
struct KvAppend::Rows {
  const HeadsView& view;
  const std::optional<RmsNorm>& norm;
  const std::optional<Rotary>& rotary;
  bool is_key;
};

absl::Status KvAppend::Check() const {
  const KvCacheShape& shape = cache_->shape();
  if (key_.tokens < 0) {
    return WrongField({"key tokens"}, "0 or more", key_.tokens);
  }
  RETURN_IF_ERROR(ExpectEqual({"value tokens"}, key_.tokens, value_.tokens));
  RETURN_IF_ERROR(ExpectEqual({"key num_heads"}, shape.num_kv_heads, key_.num_heads));
  RETURN_IF_ERROR(ExpectEqual({"value num_heads"}, shape.num_kv_heads, value_.num_heads));
  RETURN_IF_ERROR(ExpectEqual({"key head_dim"}, shape.head_dim, key_.head_dim));
  RETURN_IF_ERROR(ExpectEqual({"value head_dim"}, shape.value_head_dim, value_.head_dim));
  const std::optional<OptionError> error =
      CheckOptions({.key_norm = preparation_.norm, .rotary = preparation_.rotary},
                   {.num_heads = shape.num_kv_heads, .head_dim = shape.head_dim});
  return error.has_value()
             ? absl::InvalidArgumentError(absl::StrCat(error->field, ": ", error->text))
             : absl::OkStatus();
}

absl::Status KvAppend::Begin() {
  RETURN_IF_ERROR(Check());
  RETURN_IF_ERROR(cache_->Reserve(key_.tokens));
  if (preparation_.rotary.has_value() && rotations_ == nullptr) {
    own_rotations_ = RotaryTable(*preparation_.rotary, key_.head_dim, cache_->length_, key_.tokens);
  }
  return absl::OkStatus();
}

void KvAppend::Write(const Rows& rows, int64_t head) const {
  const HeadsView& view = rows.view;
  const KvCacheShape& shape = cache_->shape();
  const Dtype dtype = RowDtypeOf(shape.storage);
  const RotaryTable& table = rotations_ == nullptr ? own_rotations_ : *rotations_;
  // On the stack: memory from the heap, for each head, took an eighth of the time of decoding.
  alignas(64) std::byte prepared[kKeyBlock * kMaxHeadDim * sizeof(float)];
  for (int64_t row = 0; row < view.tokens;) {
    const int64_t token = cache_->length_ + row;
    const int64_t in_page = token % shape.page_tokens;
    const int64_t count = std::min(kKeyBlock - token % kKeyBlock, view.tokens - row);
    const int64_t first = row * view.token_stride + head * view.head_stride;
    const PackSource source = {ElementAt(view.data, view.dtype, first), view.dtype,
                               view.token_stride, count, view.head_dim};
    const HeadPreparation preparation{
        .norm = rows.norm, .rotary = rows.rotary, .table = &table, .first_row = row};
    const bool is_ready = !preparation.does_something() && view.dtype == dtype &&
                          (count == 1 || view.token_stride == view.head_dim);
    if (!is_ready) {
      PrepareHeadRows(preparation, source, dtype, prepared);
    }
    const void* ready = is_ready ? source.data : prepared;
    const int64_t page = token / shape.page_tokens;
    const bool is_tail = cache_->tail_ != nullptr && page == cache_->next_page();
    const HeadPage to =
        is_tail ? cache_->tail_->Head(head) : cache_->head_pages_[page * shape.num_kv_heads + head];
    const KvRowWriter writer(shape, to);
    if (!rows.is_key) {
      writer.WriteValues(ready, in_page, count);
    } else {
      if (in_page % kKeyBlock == 0) {
        writer.ClearBlock(in_page);  // the keys of a block are written first
      }
      writer.WriteKeys(ready, in_page, count);
    }
    row += count;
  }
}

void KvAppend::WriteHead(int64_t head) const {
  if (cache_->tail_ != nullptr && key_.tokens > 0) {
    cache_->tail_->CopyHeadFrom(*cache_->pages_[cache_->next_page()],
                                cache_->length_ % cache_->page_tokens(), head);
  }
  const std::optional<RmsNorm> no_norm;
  const std::optional<Rotary> no_rotary;
  Write({key_, preparation_.norm, preparation_.rotary, /*is_key=*/true}, head);
  Write({value_, no_norm, no_rotary, /*is_key=*/false}, head);
}

void KvAppend::Finish() {
  if (cache_->tail_ != nullptr && key_.tokens > 0) {
    cache_->SetPage(cache_->next_page(), std::move(cache_->tail_));
  }
  cache_->length_ += key_.tokens;
}

absl::Status KvCache::Append(const HeadsView& key, const HeadsView& value,
                             const KeyPreparation& preparation) {
  KvAppend append(*this, key, value, preparation);
  RETURN_IF_ERROR(append.Begin());
  for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
    append.WriteHead(head);
  }
  append.Finish();
  return absl::OkStatus();
}

}  // namespace attention
