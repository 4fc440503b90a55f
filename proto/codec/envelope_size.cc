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
  bool Message(const PayloadFields& fields) {
    for (uint32_t tag = in_.ReadTag(); tag != 0; tag = in_.ReadTag()) {
      const uint32_t number = wire::FieldNumber(tag);
      const bool is_delimited = wire::WireType(tag) == wire::kLengthDelimited;
      const PayloadFields* const nested = is_delimited ? fields.Nested(number) : nullptr;
      const bool ok = nested != nullptr                          ? Nested(*nested)
                      : is_delimited && fields.IsPayload(number) ? Payload()
                                                                 : Skip(tag);
      if (!ok || is_large()) {
        return false;
      }
    }
    return true;
  }

  bool is_large() const { return in_.CurrentPosition() - payload_bytes_ > max_bytes_; }

 private:
  bool Nested(const PayloadFields& fields) {
    const CodedInputStream::Limit limit = in_.ReadLengthAndPushLimit();
    const bool ok = Message(fields);
    in_.PopLimit(limit);
    return ok;
  }

  bool Payload() {
    uint32_t length = 0;
    if (!in_.ReadVarint32(&length)) {
      return false;
    }
    payload_bytes_ += length;
    return in_.Skip(static_cast<int>(length));
  }

  bool Skip(uint32_t tag) { return wire::WireFormatLite::SkipField(&in_, tag); }

  CodedInputStream& in_;
  const int64_t max_bytes_;
  int64_t payload_bytes_ = 0;
};

}  // namespace

bool HasLargeEnvelope(const grpc::ByteBuffer& wire, const PayloadFields& fields,
                      int64_t max_bytes) {
  if (!wire.Valid() || static_cast<int64_t>(wire.Length()) <= max_bytes) {
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
