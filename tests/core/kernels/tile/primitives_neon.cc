#include "tests/core/kernels/tile/primitives_of_isa.h"

namespace attention {

const VectorPrimitives kVectorPrimitivesNeon = MakePrimitives();

}  // namespace attention
