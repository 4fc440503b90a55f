#include "core/kernels/tile/table.h"

namespace attention {

const TileKernels kTileKernelsAvx512Vnni = MakeTable();

}  // namespace attention
