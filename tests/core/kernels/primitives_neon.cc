#include "tests/core/kernels/primitives_of_isa.h"

namespace attention {

const VectorPrimitives kVectorPrimitivesNeon = MakePrimitives();

}  // namespace attention
