#include "proto/codec/option_parameters.h"

#include <algorithm>
#include <vector>

#include "proto/attention/v1/attention.pb.h"

namespace attention {
namespace {

using google::protobuf::FieldDescriptor;

bool IsParameter(const FieldDescriptor& field) {
  const bool is_one_value = field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL ||
                            field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
                            field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
  // Results are asked for by `outputs`, a bandwidth is nothing without a similarity, and the view
  // of that protocol has neither windows to the right nor prefixes.
  static constexpr int kOthers[] = {v1::AttentionOptions::kReturnWeightsFieldNumber,
                                    v1::AttentionOptions::kReturnLogSumExpFieldNumber,
                                    v1::AttentionOptions::kWeightsTopKFieldNumber,
                                    v1::AttentionOptions::kBandwidthFieldNumber,
                                    v1::AttentionOptions::kWindowRightFieldNumber,
                                    v1::AttentionOptions::kPrefixFieldNumber};
  return !field.is_repeated() && is_one_value &&
         std::ranges::find(kOthers, field.number()) == std::end(kOthers);
}

std::vector<const FieldDescriptor*> MakeParameters() {
  std::vector<const FieldDescriptor*> parameters;
  const auto& message = *v1::AttentionOptions::descriptor();
  for (int i = 0; i < message.field_count(); ++i) {
    if (IsParameter(*message.field(i))) {
      parameters.push_back(message.field(i));
    }
  }
  std::ranges::sort(parameters, {}, &FieldDescriptor::number);
  return parameters;
}

}  // namespace

std::span<const FieldDescriptor* const> OptionParameters() {
  static const std::vector<const FieldDescriptor*> parameters = MakeParameters();
  return parameters;
}

const FieldDescriptor* FindOptionParameter(const std::string& name) {
  const auto parameters = OptionParameters();
  const auto found =
      std::ranges::find_if(parameters, [&](const auto* field) { return field->name() == name; });
  return found == parameters.end() ? nullptr : *found;
}

}  // namespace attention
