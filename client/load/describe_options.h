// What a request asks of a model, and its options, in one line.
#pragma once

#include <string>

#include "client/lib/attend_request.h"

namespace attention {

/// What of the model runs: ", layer 3", ", mean pooled, weights of layers 0,3"; empty: all of it.
std::string DescribeRun(const AttendRequest& request);

/// What is set, but for causal: ", window 4, rotary, bias [1, 1, 5, 5]"; empty when nothing is.
std::string DescribeOptions(const AttendRequest& request);

}  // namespace attention
