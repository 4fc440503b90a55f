// Sets repeated numbers of messages.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <vector>

namespace attention {

/// Makes `field` contain `count` elements of this value.
template <typename T>
void Fill(google::protobuf::RepeatedField<T>* field, size_t count, T value) {
  const std::vector<T> values(count, value);
  field->Assign(values.begin(), values.end());
}

}  // namespace attention
