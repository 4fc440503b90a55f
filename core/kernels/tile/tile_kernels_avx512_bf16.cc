#include "core/kernels/tile/pack.h"
#include "core/kernels/tile/softmax.h"
#include "core/kernels/tile/tables.h"

namespace attention {

const TileKernels kTileKernelsAvx512Bf16 = {Softmax,        SoftmaxRow, StoreRows,
                                            PackTransposed, PackRows,   CopyRows};

}  // namespace attention
