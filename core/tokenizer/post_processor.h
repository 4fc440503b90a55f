// The post-processor of a tokenizer.json: puts special tokens around the ids of a text.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"

namespace attention {

/// The post-processor of one file. Thread-safe.
class PostProcessor {
 public:
  struct TypedIds {
    std::vector<int32_t> ids;
    std::vector<int32_t> type_ids;
  };
  /// A part of the template: special tokens, or the text.
  struct Part {
    bool is_text = false;
    std::vector<int32_t> ids;  // of special tokens
    int32_t type_id = 0;
  };

  /// Reads the member "post_processor" of the file; null adds nothing. INVALID_ARGUMENT names the
  /// member.
  static absl::StatusOr<PostProcessor> Parse(const JsonObject& file);

  /// Returns how many ids Apply returns for `num_ids` ids.
  int64_t CountOf(int64_t num_ids, bool add_special_tokens) const;
  /// Adds the special tokens and the type ids of the template. Without `add_special_tokens` it adds
  /// the type ids only.
  TypedIds Apply(const std::vector<int32_t>& ids, bool add_special_tokens) const;

  const std::vector<Part>& parts() const { return parts_; }

 private:
  std::vector<Part> parts_ = {{.is_text = true}};
};

}  // namespace attention
