// Prompts of token ids, and requests with them.
#pragma once

#include <cstdint>
#include <string>

#include "tests/server/models/golden_server.h"
#include "tests/server/token_ids.h"

namespace attention {

inline constexpr int32_t kPromptVocabulary = 40;  // at most that of the models here

/// `count` ids that differ from those of another seed at once.
inline Ids MakePrompt(int32_t seed, int64_t count) {
  Ids ids(count);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<int32_t>((i * i + seed * (i + 1)) % kPromptVocabulary);
  }
  return ids;
}

inline v1::AttendRequest PromptRequest(const std::string& model, const Ids& ids,
                                       v1::ModelOutput output = v1::LAST_HIDDEN_STATES) {
  v1::AttendRequest request = TokenRequest(model, ids, std::ssize(ids));
  request.set_model_output(output);
  return request;
}

}  // namespace attention
