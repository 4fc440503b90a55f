// The options of attention that an Open Inference request sets by a parameter of the same name.
#pragma once

#include <google/protobuf/descriptor.h>

#include <span>
#include <string>

namespace attention {

/// Returns the fields of v1::AttentionOptions that are one bool, int64 or double and change what a
/// row attends to and how (so no `return_...`), in the order of their numbers: `causal`, `scale`,
/// ... `window_right`, `prefix` and `bandwidth` are not among them.
std::span<const google::protobuf::FieldDescriptor* const> OptionParameters();

/// Returns the field of this name; null if it is not among them.
const google::protobuf::FieldDescriptor* FindOptionParameter(const std::string& name);

}  // namespace attention
