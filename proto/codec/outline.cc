#include "proto/codec/outline.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <string>

#include "proto/codec/wire.h"

namespace attention {
namespace {

using google::protobuf::io::CodedInputStream;
using Encoding = EnvelopeFields::Field::Encoding;

constexpr int kMaxOutlineFields = 1000;
constexpr size_t kMaxOutlineBytes = size_t{4} << 10;

// Appends a field of bytes, of which a nested message keeps none. Returns false at an error.
bool AppendDelimited(CodedInputStream& in, uint32_t tag, const EnvelopeFields::Field* field,
                     std::string& out) {
  uint32_t length = 0;
  if (!in.ReadVarint32(&length)) {
    return false;
  }
  if (field != nullptr && field->encoding == Encoding::kMessage) {
    wire::AppendVarint(tag, out);
    wire::AppendVarint(0, out);
    return in.Skip(static_cast<int>(length));
  }
  if (field == nullptr || field->encoding != Encoding::kBytes) {
    return in.Skip(static_cast<int>(length));
  }
  std::string bytes;
  if (length > kMaxOutlineBytes || !in.ReadString(&bytes, static_cast<int>(length))) {
    return false;
  }
  wire::AppendVarint(tag, out);
  wire::AppendVarint(length, out);
  out += bytes;
  return true;
}

// Appends one field of the message. Returns false at an error.
bool AppendField(CodedInputStream& in, uint32_t tag, const EnvelopeFields& fields,
                 std::string& out) {
  const EnvelopeFields::Field* const field = fields.Find(wire::FieldNumber(tag));
  if (wire::WireType(tag) == wire::kLengthDelimited) {
    return AppendDelimited(in, tag, field, out);
  }
  if (wire::WireType(tag) != wire::kVarint) {
    return wire::WireFormatLite::SkipField(&in, tag);
  }
  uint64_t value = 0;
  if (!in.ReadVarint64(&value)) {
    return false;
  }
  if (field != nullptr && field->encoding == Encoding::kVarint) {
    wire::AppendVarint(tag, out);
    wire::AppendVarint(value, out);
  }
  return true;
}

}  // namespace

bool ReadOutline(const grpc::ByteBuffer& wire, const EnvelopeFields& fields,
                 google::protobuf::Message& message) {
  grpc::ByteBuffer buffer = wire;  // the reader takes no const buffer; slices are shared
  grpc::ProtoBufferReader reader(&buffer);
  CodedInputStream in(&reader);
  std::string out;
  int num_fields = 0;
  for (uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
    if (++num_fields > kMaxOutlineFields || !AppendField(in, tag, fields, out) ||
        out.size() > kMaxOutlineBytes) {
      return false;
    }
  }
  return in.ConsumedEntireMessage() && message.ParseFromString(out);
}

}  // namespace attention
