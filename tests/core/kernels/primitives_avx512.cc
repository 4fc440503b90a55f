#include "tests/core/kernels/primitives_of_isa.h"

namespace attention {

const VectorPrimitives kVectorPrimitivesAvx512 = MakePrimitives();

}  // namespace attention
