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
/// tensor, expected and found for a header that lies, an offset out of range, overlapping tensors
/// or an unknown dtype; NOT_FOUND when the file is missing.
absl::StatusOr<NamedTensors> ReadSafetensors(const std::string& path);

/// Texts that a file carries beside its tensors.
using SafetensorsMetadata = std::map<std::string, std::string>;

/// "__metadata__"; empty where there is none. Errors of ReadSafetensors, and INVALID_ARGUMENT for
/// what is no object of strings.
absl::StatusOr<SafetensorsMetadata> ReadSafetensorsMetadata(const std::string& path);

/// Writes F32, BF16 and F16 tensors; replaces the file only when all was written.
absl::Status WriteSafetensors(const std::string& path,
                              const std::map<std::string, const Tensor*>& tensors,
                              const SafetensorsMetadata& metadata = {});

}  // namespace attention
