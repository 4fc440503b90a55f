// Turns errors of oneDNN into exceptions of ours. Internal to core/kernels/onednn.
#pragma once

#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

/// Returns a text such as "a matrix product of 64 x 64 x 128 f32".
std::string Describe(const GemmShape& shape);

/// Throws NoKernelMemory when `status` says that there was no memory, else KernelError. `what` is
/// the verb of the message: oneDNN could not `what` the product.
[[noreturn]] void ThrowKernelError(dnnl_status_t status, const char* what, const GemmShape& shape);

/// Returns what `function` returns. A dnnl::error becomes NoKernelMemory or KernelError.
template <typename Function>
auto WithoutDnnlErrors(const char* what, const GemmShape& shape, Function&& function) {
  try {
    return function();
  } catch (const dnnl::error& error) {
    ThrowKernelError(error.status, what, shape);
  }
}

}  // namespace attention
