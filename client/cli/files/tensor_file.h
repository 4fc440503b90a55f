// Tensors named on the command line.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/tensor/safetensors.h"

namespace attention {

/// Loads `FILE.npy`, `FILE.safetensors` (if it holds one tensor), `FILE.safetensors:TENSOR`, or
/// `random:2x5x512`: N(0, 1)-like values from `seed`. Files keep their dtype; random tensors are
/// FP32. INVALID_ARGUMENT or NOT_FOUND name the file, and list its tensors when the choice is
/// unclear.
absl::StatusOr<Tensor> LoadTensor(const std::string& source, uint64_t seed);

/// Writes `output`, by that name, with `others` and `metadata` to a .safetensors file, or it alone
/// to a .npy file. INVALID_ARGUMENT for another extension.
absl::Status SaveTensors(const std::string& path, const Tensor& output, NamedValues others = {},
                         const SafetensorsMetadata& metadata = {});

/// Returns whether a file exists; false also for a text that cannot be a path, such as a name that
/// is too long.
bool FileExists(const std::string& path);

/// OK if SaveTensors knows the extension of `path`.
absl::Status CheckTensorPath(const std::string& path);

}  // namespace attention
