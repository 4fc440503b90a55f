#include "core/tokenizer/vocabulary.h"

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/steps.h"
#include "nlohmann/json.hpp"

namespace attention {

absl::StatusOr<Vocabulary> Vocabulary::Parse(const JsonObject& model) {
  const nlohmann::json* entries = model.Find("vocab");
  if (entries == nullptr || !entries->is_object()) {
    return model.Wrong("vocab", "an object of tokens and ids");
  }
  Vocabulary vocabulary;
  vocabulary.tokens_.reserve(entries->size());
  for (const auto& [token, value] : entries->items()) {
    const absl::StatusOr<int32_t> id = ParseId(value, "");
    if (!id.ok()) {
      return ParseId(value, absl::StrCat(model.PlaceOf("vocab"), "[\"", token, "\"]")).status();
    }
    vocabulary.tokens_.emplace(token, *id);
  }
  return vocabulary;
}

std::optional<int32_t> Vocabulary::Find(std::string_view token) const {
  const auto found = tokens_.find(token);
  return found == tokens_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

}  // namespace attention
