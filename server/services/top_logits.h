// The largest logits of a row.
#pragma once

#include <cstdint>

#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// The `k` largest of `vocab_size` logits, largest first (equal ones: the lower id first; NaN last),
/// and the logarithm of the sum of the exponentials of all. REQUIRES: vocab_size > 0.
void WriteTopLogits(const float* logits, int64_t vocab_size, int64_t k, v1::TopLogits& wire);

}  // namespace attention
