#include "core/kernels/tile/table.h"

namespace attention {

const TileKernels kTileKernelsAvx512 = MakeTable();

}  // namespace attention
