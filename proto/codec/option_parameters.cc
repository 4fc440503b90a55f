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
  // A client requests results by `outputs`, and `bandwidth` has no effect without a similarity. The
  // protocol's models have no parameter for windows to the right and prefixes.
  static constexpr int kExcluded[] = {v1::AttentionOptions::kReturnWeightsFieldNumber,
                                      v1::AttentionOptions::kReturnLogSumExpFieldNumber,
                                      v1::AttentionOptions::kWeightsTopKFieldNumber,
                                      v1::AttentionOptions::kBandwidthFieldNumber,
                                      v1::AttentionOptions::kWindowRightFieldNumber,
                                      v1::AttentionOptions::kPrefixFieldNumber};
  return !field.is_repeated() && is_one_value &&
         std::ranges::find(kExcluded, field.number()) == std::end(kExcluded);
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
