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
  uint64_t size_bytes;
};
/// What the header says of one tensor; [begin, end) in bytes after the header.
struct SafetensorsEntry {
  std::string name;
  StoredDtypeInfo dtype;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Where the header keeps texts instead of a tensor.
inline constexpr char kMetadataName[] = "__metadata__";

/// Of the number in front of the header that says how long it is.
inline constexpr uint64_t kLengthBytes = 8;

/// INVALID_ARGUMENT when a file of `file_bytes` cannot have a header of `header_bytes` (0 for a
/// file too short to say).
absl::Status CheckHeaderBytes(uint64_t header_bytes, uint64_t file_bytes);

/// The tensors in the order of their data, which they fill without gap or overlap; "__metadata__"
/// is passed over. INVALID_ARGUMENT names the tensor, what was expected and what was found.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(const std::string& text,
                                                                     uint64_t data_bytes);

/// "__metadata__"; empty where there is none. INVALID_ARGUMENT for what is no object of strings.
absl::StatusOr<std::map<std::string, std::string>> ParseSafetensorsMetadata(
    const std::string& text);

}  // namespace attention
