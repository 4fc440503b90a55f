// A request's options in one line.
#pragma once

#include <string>

#include "client/lib/attend_request.h"

namespace attention {

/// What is set, but for causal: ", window 4, rotary, bias [1, 1, 5, 5]"; empty when nothing is.
std::string DescribeOptions(const AttendRequest& request);

}  // namespace attention
