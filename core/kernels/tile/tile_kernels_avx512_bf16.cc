#include "core/kernels/tile/table.h"

namespace attention {

const TileKernels kTileKernelsAvx512Bf16 = MakeTable();

}  // namespace attention
