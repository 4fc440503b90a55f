// The description of a model in the API.
#pragma once

#include "core/models/model.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Returns the description of a model, with the server's limits for requests.
v1::Model DescribeModel(const Model& model, const v1::ModelLimits& limits);

}  // namespace attention
