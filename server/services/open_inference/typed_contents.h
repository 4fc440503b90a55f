// The values of an input as a list of numbers, beside raw bytes and shared memory.
#pragma once

#include <cstdint>
#include <string>

#include "proto/inference/open_inference.pb.h"

namespace attention {

/// The field of typed contents that a datatype has, and its values there.
struct TypedContents {
  const char* field = nullptr;  // null: the datatype has none
  int64_t count = 0;
  const void* values = nullptr;
};

/// Returns the values of the datatype. They point into `contents`.
TypedContents ContentsOf(const inference::InferTensorContents& contents,
                         const std::string& datatype);

/// Returns the name of a set field other than `field`; empty when there is none.
std::string OtherField(const inference::InferTensorContents& contents, const char* field);

}  // namespace attention
