// A model as the API describes it.
#pragma once

#include "core/models/model.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

v1::Model DescribeModel(const Model& model, const v1::ModelLimits& limits);

}  // namespace attention
