// A text that a model writes, token by token, in a session.
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
  /// 0: always the likeliest.
  double temperature = 0;
  /// Of the likeliest k tokens only. At least 1.
  int64_t top_k = 40;
  /// Of the likeliest tokens that together have this probability, among those k (A. Holtzman et
  /// al., "The Curious Case of Neural Text Degeneration", 2020). In (0, 1].
  double top_p = 1;
  uint64_t seed = 0;
};

/// The same choices for the same seed, on every machine.
class TokenSampler {
 public:
  explicit TokenSampler(const SamplerOptions& options)
      : options_(options), generator_(options.seed) {}

  /// How many logits Choose wants.
  int64_t num_logits() const { return options_.temperature > 0 ? options_.top_k : 1; }

  /// An index of `top`. REQUIRES: there are some; largest first.
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

/// One thread.
class Generation {
 public:
  /// Borrows `stream`.
  Generation(DecodeStream& stream, const GenerationOptions& options)
      : stream_(stream), options_(options), sampler_(options.sampler) {}

  /// Gets each token's id and, as soon as it can be shown, the text.
  using OnToken = std::function<void(int32_t id, const std::string& text)>;

  /// REQUIRES: called once; `prompt` is TokenIdsInput or TextInput.
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
  int64_t length_ = 0;  // tokens of the session
};

class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  /// Takes the next bytes, and returns those that can be shown by now: what might begin a stop text
  /// waits for what follows.
  std::string Add(const std::string& bytes);

  /// Whether a stop text was there; nothing is shown from it on.
  bool is_over() const { return is_over_; }

  /// What waits still, when there is no more; forgets it.
  std::string Rest();

 private:
  const std::vector<std::string> texts_;  // none of them empty
  std::string held_;
  bool is_over_ = false;
};

}  // namespace attention
