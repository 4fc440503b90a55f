#include "client/cli/top/statistics_change.h"

#include <google/protobuf/descriptor.h>

namespace attention {
namespace {

using google::protobuf::FieldDescriptor;

template <typename Message>
void Subtract(const Message& before, Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < Message::descriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = Message::descriptor()->field(i);
    if (!field->is_repeated() && field->cpp_type() == FieldDescriptor::CPPTYPE_INT64 &&
        field->name() != "version") {
      reflection.SetInt64(&message, field,
                          reflection.GetInt64(message, field) - reflection.GetInt64(before, field));
    }
  }
}

}  // namespace

v1::ServerStatistics ChangeBetween(const v1::ServerStatistics& before,
                                   const v1::ServerStatistics& after) {
  v1::ServerStatistics change = after;
  if (after.uptime_ns() < before.uptime_ns()) {
    return change;
  }
  Subtract(before, change);
  for (v1::ModelStatistics& model : *change.mutable_models()) {
    for (const v1::ModelStatistics& old : before.models()) {
      if (old.model() == model.model() && old.version() == model.version()) {
        Subtract(old, model);
      }
    }
  }
  return change;
}

}  // namespace attention
