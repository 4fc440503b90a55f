#include "proto/codec/envelope_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "proto/codec/wire.h"

namespace attention {
namespace {

using google::protobuf::io::CodedInputStream;

class EnvelopeMeter {
 public:
  EnvelopeMeter(CodedInputStream& in, int64_t max_bytes) : in_(in), max_bytes_(max_bytes) {}

  /// Reads the message up to the stream's limit. Returns false when the walk is over, at an error
  /// or beyond max_bytes.
  bool Message(const EnvelopeFields& fields) {
    for (uint32_t tag = in_.ReadTag(); tag != 0; tag = in_.ReadTag()) {
      const bool is_delimited = wire::WireType(tag) == wire::kLengthDelimited;
      const EnvelopeFields::Field* const field =
          is_delimited ? fields.Find(wire::FieldNumber(tag)) : nullptr;
      if (!(field != nullptr ? Delimited(*field) : Skip(tag)) || is_large()) {
        return false;
      }
    }
    return true;
  }

  bool is_large() const { return in_.CurrentPosition() + other_bytes_ > max_bytes_; }

 private:
  bool Delimited(const EnvelopeFields::Field& field) {
    using Kind = EnvelopeFields::Field::Encoding;
    if (field.encoding == Kind::kMessage) {
      const CodedInputStream::Limit limit = in_.ReadLengthAndPushLimit();
      const bool ok = Message(*field.nested);
      in_.PopLimit(limit);
      return ok;
    }
    uint32_t length = 0;
    if (!in_.ReadVarint32(&length)) {
      return false;
    }
    const bool is_text = field.encoding == Kind::kBytes && field.descriptor->is_repeated();
    other_bytes_ += field.encoding == Kind::kPayload ? -int64_t{length}
                    : is_text                        ? (kTextWeight - 1) * int64_t{length}
                                                     : 0;
    return in_.Skip(static_cast<int>(length));
  }

  bool Skip(uint32_t tag) { return wire::WireFormatLite::SkipField(&in_, tag); }

  CodedInputStream& in_;
  const int64_t max_bytes_;
  /// What to add to the bytes that were read: less for payloads, more for texts.
  int64_t other_bytes_ = 0;
};

}  // namespace

bool HasLargeEnvelope(const grpc::ByteBuffer& wire, const EnvelopeFields& fields,
                      int64_t max_bytes) {
  if (!wire.Valid() || static_cast<int64_t>(wire.Length()) <= max_bytes / kTextWeight) {
    return false;
  }
  grpc::ByteBuffer buffer = wire;  // the reader takes no const buffer; slices are shared
  grpc::ProtoBufferReader reader(&buffer);
  CodedInputStream in(&reader);
  EnvelopeMeter meter(in, max_bytes);
  meter.Message(fields);
  return meter.is_large();
}

}  // namespace attention
