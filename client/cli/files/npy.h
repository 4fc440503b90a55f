// NumPy's .npy format, versions 1.0 to 3.0 (numpy.lib.format): magic, a Python dict literal with
// `descr`, `fortran_order` and `shape`, then the elements.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Reads a C-ordered array of '<f4' (FP32), '<f2' (FP16), '<f8' (rounded to FP32), '|b1' or '|u1'
/// (as FP32). NOT_FOUND if the file is missing; INVALID_ARGUMENT names the file, what was expected
/// and what was found.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);

/// Writes version 1.0; BF16, which NumPy does not know, is widened to FP32. Replaces the file only
/// when all was written.
absl::Status WriteNpy(const std::string& path, const Tensor& tensor);

}  // namespace attention
