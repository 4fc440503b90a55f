// Caches for a sequence that grows in steps, and the limits of its growth.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/models/model.h"
#include "core/models/model_parts.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status CheckStack(const ModelInfo& info) {
  const auto error = [&](const std::string& expected, const std::string& found) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", info.name, ": caches: expected ", expected, ", found ", found));
  };
  if (!info.has_stack) {
    return error("a stack of layers", "one layer");
  }
  if (info.has_encoder) {
    return error("a decoder alone", "an encoder");
  }
  for (size_t i = 0; i < info.layers.size(); ++i) {
    if (!info.layers[i].causal) {
      return error("causal layers", absl::StrCat("layer ", i, ", which is not"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<KvCache>> Model::MakeCaches(KeyValueStorage storage,
                                                       std::shared_ptr<KvMemory> memory,
                                                       int64_t page_tokens) const {
  RETURN_IF_ERROR(CheckStack(info()));
  if (memory == nullptr) {
    memory = std::make_shared<KvMemory>();
  }
  std::vector<KvCache> caches;
  for (int64_t i = 0; i < std::ssize(info().layers); ++i) {
    ASSIGN_OR_RETURN(KvCache cache, MakeLayerCache(i, storage, memory, page_tokens));
    caches.push_back(std::move(cache));
  }
  return caches;
}

absl::StatusOr<KvCache> Model::MakeLayerCache(int64_t index, KeyValueStorage storage,
                                              std::shared_ptr<KvMemory> memory,
                                              int64_t page_tokens) const {
  const auto error = [&](absl::string_view message) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", info().name, ": layer ", index, ": ", message));
  };
  if (info().layers[index].is_cross) {
    return error("cache: expected self-attention, found cross-attention");
  }
  absl::StatusOr<KvCacheShape> shape = layer(index).CacheShape(storage);
  if (!shape.ok()) {
    return error(shape.status().message());
  }
  shape->page_tokens = page_tokens;
  return KvCache::Create(*shape, std::move(memory));
}

absl::Status Model::CheckGrowth(int64_t cached_len, int64_t new_tokens) const {
  const int64_t length = cached_len + new_tokens;
  for (const ModelLayer& layer : state_->layers) {
    if (!layer.rotary.has_value()) {
      continue;
    }
    const RotaryDescription& rotary = *layer.rotary;
    if (length > rotary.max_positions.value_or(length)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model ", info().name, ": expected at most ", *rotary.max_positions,
          " positions, for which its rotations are valid, found a sequence that ends at ", length));
    }
    const int64_t limit = rotary.long_from;
    if (!rotary.long_frequencies.empty() && cached_len > 0 && cached_len <= limit &&
        length > limit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model ", info().name, ": its rotations change beyond ", limit,
          " tokens: expected a sequence that stays within them or starts again, found one of ",
          cached_len, " cached tokens and ", new_tokens, " more"));
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
