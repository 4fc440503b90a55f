#include "core/kernels/tile/table.h"

namespace attention {

const TileKernels kTileKernelsNeon = MakeTable();

}  // namespace attention
