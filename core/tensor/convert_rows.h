// Copies of matrices by several threads.
#pragma once

#include "core/runtime/thread_pool.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Copies the rows and converts them to the dtype of `target`. REQUIRES: equal extents; the memory
/// does not overlap.
void ConvertRows(const MatrixView& source, const MutableMatrixView& target, ThreadPool& pool);

}  // namespace attention
