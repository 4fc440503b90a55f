// Which token comes next.
#pragma once

#include <cstdint>
#include <random>

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

}  // namespace attention
