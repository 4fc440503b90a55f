// Shapes, lengths and token lists as people type them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Parses "2x5x512" to {2, 5, 512}; extents are at least 0. INVALID_ARGUMENT quotes what is wrong,
/// as in all functions of this file.
absl::StatusOr<Shape> ParseShape(const std::string& text);

/// Parses "3,5" to {3, 5}, and the empty text to {}.
absl::StatusOr<std::vector<int64_t>> ParseIntegers(const std::string& text);

/// Parses indices and ranges of them, "0-2,7" to {0, 1, 2, 7}; each is at most 65535.
absl::StatusOr<std::vector<int64_t>> ParseIndices(const std::string& text);

/// Parses "3,5;;1" to {{3, 5}, {}, {1}}: one list for each sequence.
absl::StatusOr<std::vector<std::vector<int64_t>>> ParseLists(const std::string& text);

/// Parses "0.5,-2" to {0.5, -2}.
absl::StatusOr<std::vector<double>> ParseNumbers(const std::string& text);

/// Parses "1,2,3" to these token ids; at least one.
absl::StatusOr<std::vector<int32_t>> ParseTokenIds(const std::string& text);

/// Token ids of several sequences, packed one after the other.
struct RaggedTokens {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
};

/// Parses "1,2,3;4,5" to two sequences of 3 and 2 tokens. A sequence may be empty, the text may
/// not.
absl::StatusOr<RaggedTokens> ParseTokens(const std::string& text);

/// Returns `text`, which has to be UTF-8: protobuf takes nothing else.
absl::StatusOr<std::string> ParseUtf8(const std::string& text);

struct NamedVersion {
  std::string name;
  std::optional<int64_t> version = {};
};

/// Parses "NAME" or "NAME:VERSION".
absl::StatusOr<NamedVersion> ParseNamedVersion(const std::string& text);

}  // namespace attention
