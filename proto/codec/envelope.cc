#include "proto/codec/envelope.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/codec/wire.h"

namespace attention {
namespace {

using google::protobuf::io::CodedInputStream;

// A longer one has bits that ReadTag would drop.
constexpr int kMaxTagBytes = 5;

// Rewrites one message from `in_` to a string in which payloads are references. Every function is
// false for a malformed wire.
class Stripper {
 public:
  Stripper(CodedInputStream& in, int size_bytes) : in_(in), size_bytes_(size_bytes) {}

  // The message from here to the stream's current limit.
  bool Message(const PayloadFields& fields, std::string& out) {
    while (true) {
      const int begin = in_.CurrentPosition();
      const uint32_t tag = in_.ReadTag();
      if (tag == 0) {
        return in_.ConsumedEntireMessage();
      }
      if (wire::FieldNumber(tag) == 0 || in_.CurrentPosition() - begin > kMaxTagBytes) {
        return false;
      }
      wire::AppendVarint(tag, out);
      const bool ok = wire::WireType(tag) == wire::kLengthDelimited
                          ? LengthDelimited(fields, wire::FieldNumber(tag), out)
                          : Scalar(wire::WireType(tag), out);
      if (!ok) {
        return false;
      }
    }
  }

 private:
  // Groups are refused: no message of ours ever had one.
  bool Scalar(wire::WireFormatLite::WireType type, std::string& out) {
    uint64_t value = 0;
    switch (type) {
      case wire::kVarint:
        if (!in_.ReadVarint64(&value)) {
          return false;
        }
        wire::AppendVarint(value, out);
        return true;
      case wire::kFixed64:
        return Raw(8, out);
      case wire::kFixed32:
        return Raw(4, out);
      default:
        return false;
    }
  }

  bool LengthDelimited(const PayloadFields& fields, uint32_t number, std::string& out) {
    uint64_t wide_length = 0;
    if (!in_.ReadVarint64(&wide_length) || wide_length > BytesLeft()) {
      return false;
    }
    const auto length = static_cast<uint32_t>(wide_length);
    if (fields.IsPayload(number)) {
      const auto position = static_cast<uint32_t>(in_.CurrentPosition());
      const std::string reference = wire::ToField({position, length});
      wire::AppendVarint(reference.size(), out);
      out += reference;
      return in_.Skip(static_cast<int>(length));
    }
    if (const PayloadFields* nested = fields.Nested(number)) {
      const CodedInputStream::Limit limit = in_.PushLimit(static_cast<int>(length));
      std::string inner;
      const bool ok = Message(*nested, inner);
      in_.PopLimit(limit);
      wire::AppendVarint(inner.size(), out);
      out += inner;
      return ok;
    }
    wire::AppendVarint(length, out);
    return Raw(length, out);
  }

  bool Raw(uint32_t count, std::string& out) {
    if (count > BytesLeft()) {
      return false;
    }
    const size_t begin = out.size();
    out.resize(begin + count);
    return in_.ReadRaw(out.data() + begin, static_cast<int>(count));
  }

  uint32_t BytesLeft() const {
    const int until_limit = in_.BytesUntilLimit();  // -1 without a limit
    return static_cast<uint32_t>(until_limit >= 0 ? until_limit
                                                  : size_bytes_ - in_.CurrentPosition());
  }

  CodedInputStream& in_;
  const int size_bytes_;
};

}  // namespace

Payload ResolvePayload(const std::string& reference,
                       const std::shared_ptr<const ReceivedBytes>& bytes) {
  if (reference.empty()) {
    return Payload();
  }
  const wire::PayloadReference range = wire::FromField(reference);
  return Payload(bytes, range.position, range.size_bytes);
}

absl::Status DecodeEnvelope(const grpc::ByteBuffer& wire, const PayloadFields& fields,
                            google::protobuf::Message& message) {
  const size_t size_bytes = wire.Valid() ? wire.Length() : 0;
  const std::string& type = message.GetDescriptor()->full_name();
  if (size_bytes > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        type, ": expected a message of less than 2 GiB, found ", size_bytes, " bytes"));
  }
  if (size_bytes == 0) {
    message.Clear();
    return absl::OkStatus();
  }
  grpc::ByteBuffer buffer = wire;  // the reader takes no const buffer; slices are shared
  grpc::ProtoBufferReader reader(&buffer);
  CodedInputStream in(&reader);
  std::string stripped;
  if (!Stripper(in, static_cast<int>(size_bytes)).Message(fields, stripped) ||
      !message.ParseFromString(stripped)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a message ", type, ", found ", size_bytes, " bytes that are none"));
  }
  return absl::OkStatus();
}

}  // namespace attention
