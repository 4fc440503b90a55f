#include "core/kernels/tile/table.h"

namespace attention {

const TileKernels kTileKernelsSse41 = MakeTable();

}  // namespace attention
