// How far the answer to a random call may be from the reference's.
#pragma once

#include "core/tensor/dtype.h"
#include "tests/core/fuzz/fuzz_case.h"

namespace attention {

/// Largest relative L2 error of the sums, before the output is rounded.
double ToleranceOfSums(const FuzzCase& c);
/// Largest relative L2 error, of many N(0, 1) rows.
double ToleranceOf(const FuzzCase& c, Dtype output_dtype);
/// The same of the weights.
double WeightsToleranceOf(const FuzzCase& c);
/// Largest difference of a logarithm of a sum, relative to it if that is larger than 1.
double LogSumExpToleranceOf(const FuzzCase& c);

}  // namespace attention
