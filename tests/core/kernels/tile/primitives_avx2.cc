#include "tests/core/kernels/tile/primitives_of_isa.h"

namespace attention {

const VectorPrimitives kVectorPrimitivesAvx2 = MakePrimitives();

}  // namespace attention
