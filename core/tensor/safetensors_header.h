// The JSON header of a safetensors file, checked against the size of the data that follows it.
// Internal to the readers and their tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace attention {

enum class StoredDtype { kF32, kBf16, kF16, kF64, kI64, kI32, kU8, kBool, kOther };

struct StoredDtypeInfo {
  const char* name;
  StoredDtype dtype;
  int64_t size_bytes;
};
/// The entry of one tensor in the header. [begin, end) are bytes after the header.
struct SafetensorsEntry {
  std::string name;
  StoredDtypeInfo dtype;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// The member of the header that holds texts instead of a tensor.
inline constexpr char kMetadataName[] = "__metadata__";

/// The size of the number in front of the header. That number is the size of the header.
inline constexpr uint64_t kLengthBytes = 8;

/// Returns INVALID_ARGUMENT when a file of `file_bytes` cannot have a header of `header_bytes` (0
/// when the file is too short to hold the number).
absl::Status CheckHeaderBytes(uint64_t header_bytes, uint64_t file_bytes);

/// Returns the tensors in the order of their data, which they fill without gap or overlap. It skips
/// "__metadata__". INVALID_ARGUMENT names the tensor, what was expected and what was found.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(const std::string& text,
                                                                     uint64_t data_bytes);

/// Returns the texts of "__metadata__", none when it is absent. INVALID_ARGUMENT when it is not an
/// object of strings.
absl::StatusOr<std::map<std::string, std::string>> ParseSafetensorsMetadata(
    const std::string& text);

}  // namespace attention
