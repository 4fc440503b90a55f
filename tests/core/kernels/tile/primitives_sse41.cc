#include "tests/core/kernels/tile/primitives_of_isa.h"

namespace attention {

const VectorPrimitives kVectorPrimitivesSse41 = MakePrimitives();

}  // namespace attention
