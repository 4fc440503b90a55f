#include "server/services/open_inference/typed_contents.h"

#include <vector>

namespace attention {

using inference::InferTensorContents;

TypedContents ContentsOf(const InferTensorContents& contents, const std::string& datatype) {
  if (datatype == "FP32") {
    return {"fp32_contents", contents.fp32_contents_size(), contents.fp32_contents().data()};
  }
  if (datatype == "INT32") {
    return {"int_contents", contents.int_contents_size(), contents.int_contents().data()};
  }
  if (datatype == "INT64") {
    return {"int64_contents", contents.int64_contents_size(), contents.int64_contents().data()};
  }
  return {};
}

std::string OtherField(const InferTensorContents& contents, const char* field) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  contents.GetReflection()->ListFields(contents, &fields);
  for (const google::protobuf::FieldDescriptor* other : fields) {
    if (field == nullptr || other->name() != field) {
      return std::string(other->name());
    }
  }
  return "";
}

}  // namespace attention
