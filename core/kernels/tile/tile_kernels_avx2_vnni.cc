#include "core/kernels/tile/table.h"

namespace attention {

const TileKernels kTileKernelsAvx2Vnni = MakeTable();

}  // namespace attention
