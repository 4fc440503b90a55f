#include "client/cli/show/message_json.h"

#include <google/protobuf/descriptor.h>

#include <string>

namespace attention {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::json;

/// The value of a field that is not repeated.
Json ValueOf(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = reflection.GetEnumValue(message, &field);
      const auto* const value = field.enum_type()->FindValueByNumber(number);
      return value == nullptr ? Json(number) : Json(std::string(value->name()));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection.GetMessage(message, &field));
    default:
      return reflection.GetString(message, &field);
  }
}

/// The elements of a repeated field of strings or messages.
Json ElementsOf(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  Json elements = Json::array();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      elements.push_back(ToJson(reflection.GetRepeatedMessage(message, &field, i)));
    } else {
      elements.push_back(reflection.GetRepeatedString(message, &field, i));
    }
  }
  return elements;
}

}  // namespace

Json ToJson(const Message& message) {
  Json object = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    const std::string name(field.name());
    if (field.is_repeated()) {
      object[name] = ElementsOf(message, field);
    } else if (!field.has_presence() || field.message_type() != nullptr ||
               message.GetReflection()->HasField(message, &field)) {
      object[name] = ValueOf(message, field);
    }
  }
  return object;
}

}  // namespace attention
