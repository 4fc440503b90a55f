// The safetensors format (huggingface/safetensors): an 8-byte little-endian header length, a JSON
// header
// {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {...}}, then the
// bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace attention {

using NamedTensors = std::map<std::string, Tensor>;

/// Reads a whole file. Floating point tensors keep their dtype (F64 becomes f32); integer tensors
/// (I64, I32, U8, BOOL) become f32 when every value is exact in it. INVALID_ARGUMENT names file,
/// tensor, expected and found for a header that contradicts the file, an offset out of range,
/// overlapping tensors or an unknown dtype; NOT_FOUND when the file is missing.
absl::StatusOr<NamedTensors> ReadSafetensors(const std::string& path);

/// The texts that a file holds besides its tensors, by name.
using SafetensorsMetadata = std::map<std::string, std::string>;

/// Reads the member "__metadata__" of the header; the result is empty when there is none. Returns
/// the errors of ReadSafetensors, and INVALID_ARGUMENT when the member is not an object of strings.
absl::StatusOr<SafetensorsMetadata> ReadSafetensorsMetadata(const std::string& path);

/// Borrowed elements to write: those of a tensor, or of I32.
struct ValuesToStore {
  // NOLINTNEXTLINE(google-explicit-constructor): a list of tensors reads as such.
  ValuesToStore(const Tensor* tensor);
  ValuesToStore(Shape shape, std::span<const int32_t> integers);

  const char* dtype;
  Shape shape;
  int64_t element_bytes;
  std::string_view bytes;
};
using NamedValues = std::map<std::string, ValuesToStore>;

/// Writes tensors and integers; replaces the file only after all of them were written.
absl::Status WriteSafetensors(const std::string& path, const NamedValues& tensors,
                              const SafetensorsMetadata& metadata = {});

}  // namespace attention
