// Which options of attention an Open Inference request sets, each by a parameter of the same name.
#pragma once

#include <google/protobuf/descriptor.h>

#include <span>
#include <string>

namespace attention {

/// The fields of v1::AttentionOptions that are one bool, int64 or double and say how to attend, but
/// for `window_right`, `prefix` and `bandwidth`, in the order of their numbers: `causal`, `scale`,
/// ...
std::span<const google::protobuf::FieldDescriptor* const> OptionParameters();

/// The one called so, or null.
const google::protobuf::FieldDescriptor* FindOptionParameter(const std::string& name);

}  // namespace attention
