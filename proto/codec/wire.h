// The facts about protobuf's encoding that the codec needs besides protobuf's own classes.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace attention::wire {

using google::protobuf::internal::WireFormatLite;

inline constexpr auto kVarint = WireFormatLite::WIRETYPE_VARINT;
inline constexpr auto kFixed64 = WireFormatLite::WIRETYPE_FIXED64;
inline constexpr auto kLengthDelimited = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
inline constexpr auto kFixed32 = WireFormatLite::WIRETYPE_FIXED32;

inline uint32_t FieldNumber(uint32_t tag) {
  return static_cast<uint32_t>(WireFormatLite::GetTagFieldNumber(tag));
}
inline WireFormatLite::WireType WireType(uint32_t tag) {
  return WireFormatLite::GetTagWireType(tag);
}

inline void AppendVarint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

inline size_t VarintSize(uint64_t value) {
  return google::protobuf::io::CodedOutputStream::VarintSize64(value);
}

/// The value that replaces a payload in its field.
struct PayloadReference {
  /// Received: byte offset in the message; to be sent: index of the attached slice.
  uint32_t position = 0;
  uint32_t size_bytes = 0;
};

inline std::string ToField(PayloadReference reference) {
  return std::string(reinterpret_cast<const char*>(&reference), sizeof(reference));
}

/// Returns the reference in a field. REQUIRES: `field` was made by ToField, or is empty because its
/// payload is.
inline PayloadReference FromField(std::string_view field) {
  PayloadReference reference;
  if (field.empty()) {
    return reference;
  }
  std::memcpy(&reference, field.data(), sizeof(reference));
  return reference;
}

}  // namespace attention::wire
