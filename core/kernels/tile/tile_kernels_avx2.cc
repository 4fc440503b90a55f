#include "core/kernels/tile/table.h"

namespace attention {

const TileKernels kTileKernelsAvx2 = MakeTable();

}  // namespace attention
