#include "core/kernels/tile/tile_kernels.h"

#include <algorithm>

#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/tables.h"

namespace attention {

const TileKernels& CurrentTileKernels() {
#ifdef __aarch64__
  return kTileKernelsNeon;
#else
  switch (CurrentIsa()) {
    case Isa::kAvx512Bf16:
      return kTileKernelsAvx512Bf16;
    case Isa::kAvx512Vnni:
      return kTileKernelsAvx512Vnni;
    case Isa::kAvx512:
      return kTileKernelsAvx512;
    case Isa::kAvx2Vnni:
      return kTileKernelsAvx2Vnni;
    case Isa::kAvx2:
      return kTileKernelsAvx2;
    case Isa::kSse41:
    case Isa::kNeon:
      break;
  }
  return kTileKernelsSse41;
#endif
}

void MultiplyByFewRows(const TileKernels& kernels, const FewRowProduct& product) {
  FewRowProduct part = product;
  for (int64_t row = 0; row < product.rows; row += kFewRows) {
    part.rows = std::min(kFewRows, product.rows - row);
    part.a = static_cast<const char*>(product.a) + row * product.a_stride;
    part.c = static_cast<char*>(product.c) + row * product.c_stride;
    kernels.few_row_product(part);
  }
}

}  // namespace attention
