// The limits of a request, which the codec applies before memory is taken, and the server before
// anything is computed.
#pragma once

#include <cstdint>

namespace attention {

/// The maximum number of query rows, and of keys, of a request. The keys of a session are those of
/// one step.
inline constexpr int64_t kMaxTokens = int64_t{1} << 20;

/// The maximum number of sequences of a request, including those without rows: each takes memory
/// and time, and a tensor with a zero extent can name any number of them in a few bytes.
inline constexpr int64_t kMaxSequences = 4096;

/// The maximum number of heads of attention without a model.
inline constexpr int64_t kMaxHeads = int64_t{1} << 20;

/// The maximum width of a head: that of the core (kMaxHeadDim).
inline constexpr int64_t kMaxHeadWidth = 512;

/// The maximum number of integers of an input of the Open Inference protocol, and of the contents
/// of all of them: ids, mask and types of kMaxTokens, with some padding. More integers fit into
/// several inputs of raw_input_contents.
inline constexpr int64_t kMaxIntegersOfInput = 4 * kMaxTokens;

}  // namespace attention
