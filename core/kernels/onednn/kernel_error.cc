#include "core/kernels/onednn/kernel_error.h"

#include "absl/strings/str_cat.h"

namespace attention {

std::string Describe(const GemmShape& shape) {
  return absl::StrCat("a matrix product of ", shape.m, " x ", shape.n, " x ", shape.k, " ",
                      shape.int8 ? "int8" : std::string(Name(shape.dtype)),
                      shape.bf16_b ? " and bf16" : "");
}

void ThrowKernelError(dnnl_status_t status, const char* what, const GemmShape& shape) {
  if (status == dnnl_out_of_memory) {
    throw NoKernelMemory();
  }
  throw KernelError(absl::StrCat("oneDNN could not ", what, " ", Describe(shape), " (status ",
                                 static_cast<int>(status), ")"));
}

}  // namespace attention
