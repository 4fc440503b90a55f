// Tensors named on the command line.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/tensor/safetensors.h"

namespace attention {

/// `FILE.npy`, `FILE.safetensors` (when it holds one tensor), `FILE.safetensors:TENSOR`, or
/// `random:2x5x512`, which is N(0, 1)-like values of `seed`. Files keep their dtype; random tensors
/// are FP32. INVALID_ARGUMENT or NOT_FOUND name the file, and list its tensors when the choice is
/// unclear.
absl::StatusOr<Tensor> LoadTensor(const std::string& source, uint64_t seed);

/// Writes all `tensors` and `metadata` to a .safetensors file, or the tensor called `output` to a
/// .npy file. INVALID_ARGUMENT for another extension.
absl::Status SaveTensors(const std::string& path,
                         const std::map<std::string, const Tensor*>& tensors,
                         const SafetensorsMetadata& metadata = {});

/// False also for what cannot be a path, such as a name that is too long.
bool FileExists(const std::string& path);

/// Whether SaveTensors knows the extension of `path`.
absl::Status CheckTensorPath(const std::string& path);

}  // namespace attention
