// The largest logits of a row.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tokenizer/tokenizer.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Writes the `k` largest logits, largest first (equal ones: the lower id first; NaN last), and
/// the logarithm of the sum of the exponentials of all logits. REQUIRES: there is at least one
/// logit.
void WriteTopLogits(const std::vector<float>& logits, int64_t k, v1::TopLogits& wire);

/// Sets the texts of the ids; does nothing without a tokenizer.
void NameTokens(const Tokenizer* tokenizer, v1::TopLogits& wire);

}  // namespace attention
