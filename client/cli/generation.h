// A text that a model writes, token by token, in a session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/token_sampler.h"
#include "client/lib/decode_stream.h"

namespace attention {

struct GenerationOptions {
  SamplerOptions sampler;
  int64_t max_tokens = 128;
  std::set<int32_t> stop_ids;
  std::vector<std::string> stop_texts;
  /// Tokens that a sequence can have; 0: any number.
  int64_t max_positions = 0;
};

/// What followed one prompt.
struct Generated {
  int64_t prompt_tokens = 0;
  std::vector<int32_t> ids;  // without the one that stopped it
  std::string text;          // of a model with a tokenizer
  /// "length" (max_tokens), "stop" (an id or a text), or "full" (max_positions).
  std::string finish;
  /// From the prompt to the first token, and between all others.
  absl::Duration first_after, others_took;

  /// One line: how many, and how fast.
  std::string Timing() const;
};

/// One thread. Later prompts follow what came before.
class Generation {
 public:
  /// Borrows `stream`.
  Generation(DecodeStream& stream, const GenerationOptions& options)
      : stream_(stream), options_(options), sampler_(options.sampler) {}

  /// Gets each token's id and, as soon as it can be shown, the text.
  using OnToken = std::function<void(int32_t id, const std::string& text)>;

  /// REQUIRES: `prompt` is TokenIdsInput or TextInput.
  absl::StatusOr<Generated> Continue(decltype(AttendRequest::input) prompt,
                                     const OnToken& on_token);

 private:
  struct Token {
    int32_t id = 0;
    std::string text;
  };
  /// The token after the step's.
  absl::StatusOr<Token> Step(decltype(AttendRequest::input) input);

  DecodeStream& stream_;
  const GenerationOptions options_;
  TokenSampler sampler_;
  int64_t length_ = 0;            // tokens of the session
  std::optional<int32_t> unfed_;  // the last one, which the session does not have yet
};

}  // namespace attention
