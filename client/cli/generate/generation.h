// Generates text in a session, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/lib/decode_stream.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

struct SamplerOptions {
  /// The temperature; 0: always the likeliest token.
  double temperature = 0;
  /// The number of likeliest tokens that are candidates, at least 1.
  int64_t top_k = 40;
  /// The probability that the candidates have together, in (0, 1]: only the likeliest of the top_k
  /// tokens are candidates (A. Holtzman et al., "The Curious Case of Neural Text Degeneration",
  /// 2020).
  double top_p = 1;
  uint64_t seed = 0;
};

/// Chooses tokens: the same tokens for the same seed, on every machine.
class TokenSampler {
 public:
  explicit TokenSampler(const SamplerOptions& options)
      : options_(options), generator_(options.seed) {}

  /// Returns the number of logits that Choose needs.
  int64_t num_logits() const { return options_.temperature > 0 ? options_.top_k : 1; }

  /// Returns the index of the chosen token in `top`. REQUIRES: `top` has logits, largest first.
  int Choose(const v1::TopLogits& top);

 private:
  const SamplerOptions options_;
  std::mt19937_64 generator_;
};

struct GenerationOptions {
  SamplerOptions sampler;
  int64_t max_tokens = 128;
  std::set<int32_t> stop_ids;
  std::vector<std::string> stop_texts;
  /// The maximum number of tokens of a sequence; 0: no maximum.
  int64_t max_positions = 0;
};

/// The text after one prompt.
struct Generated {
  int64_t prompt_tokens = 0;
  std::vector<int32_t> ids;  // without the id that ended the text
  std::string text;          // of a model with a tokenizer
  /// The reason for the end: "length" (max_tokens), "stop" (an id or a text), or "full"
  /// (max_positions).
  std::string finish;
  /// The time from the prompt to the first token, and from there to the last.
  absl::Duration first_after, others_took;

  /// Returns the milliseconds of a token after the first; 0 if there is none.
  double MillisecondsEach() const;
  /// Returns a line with the number of tokens and their times.
  std::string Timing() const;
};

/// Continues one prompt. Not thread-safe.
class Generation {
 public:
  /// Borrows `stream`.
  Generation(DecodeStream& stream, const GenerationOptions& options)
      : stream_(stream), options_(options), sampler_(options.sampler) {}

  /// Takes the id of each token and the text that can be shown by then; at the end id -1 and the
  /// rest of the text.
  using OnToken = std::function<void(int32_t id, const std::string& text)>;

  /// Generates tokens until an end. REQUIRES: called once; `prompt` is TokenIdsInput or TextInput.
  absl::StatusOr<Generated> Continue(decltype(AttendRequest::input) prompt,
                                     const OnToken& on_token);

 private:
  struct Token {
    int32_t id = 0;
    std::string text;
  };
  /// Sends a step, and chooses the token after it.
  absl::StatusOr<Token> Step(decltype(AttendRequest::input) input);

  DecodeStream& stream_;
  const GenerationOptions options_;
  TokenSampler sampler_;
  int64_t length_ = 0;  // tokens of the session
};

/// Finds the first stop text in a text that arrives in parts.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  /// Takes the next bytes, and returns those that can be shown. Bytes that may begin a stop text
  /// are held back.
  std::string Add(const std::string& bytes);

  /// Returns whether a stop text was found. From there on nothing is shown.
  bool is_over() const { return is_over_; }

  /// Returns the bytes that are held back, at the end of the text.
  std::string Rest();

 private:
  const std::vector<std::string> texts_;  // none of them empty
  std::string held_;
  bool is_over_ = false;
};

}  // namespace attention
