#include "tests/core/kernels/primitives_of_isa.h"

namespace attention {

const VectorPrimitives kVectorPrimitivesAvx2 = MakePrimitives();

}  // namespace attention
