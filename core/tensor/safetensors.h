// The safetensors format (huggingface/safetensors): an 8-byte little-endian header length, a JSON
// header
// {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {...}}, then the
// bytes.
#pragma once

#include <map>
#include <string>

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

/// Writes F32, BF16 and F16 tensors; replaces the file only after all tensors were written.
absl::Status WriteSafetensors(const std::string& path,
                              const std::map<std::string, const Tensor*>& tensors,
                              const SafetensorsMetadata& metadata = {});

}  // namespace attention
