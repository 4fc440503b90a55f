#include "proto/codec/encode.h"

#include <google/protobuf/io/coded_stream.h>

#include <string_view>
#include <utility>

#include "proto/codec/wire.h"

namespace attention {
namespace {

using google::protobuf::io::CodedInputStream;

// One field of a serialized envelope.
struct Field {
  std::string_view head;  // the tag of a payload or nested message; else the whole field
  std::string_view body;  // contents of a payload or nested message
  bool is_payload = false;
  const PayloadFields* nested = nullptr;
};

// Walks a message that protobuf itself has just written, hence well formed.
class FieldReader {
 public:
  FieldReader(std::string_view message, const PayloadFields& fields)
      : message_(message),
        fields_(fields),
        in_(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size())) {}

  bool Next(Field& field) {
    const int begin = in_.CurrentPosition();
    const uint32_t tag = in_.ReadTag();
    if (tag == 0) {
      return false;
    }
    const uint32_t number = wire::FieldNumber(tag);
    const bool delimited = wire::WireType(tag) == wire::kLengthDelimited;
    field = Field();
    field.is_payload = delimited && fields_.IsPayload(number);
    field.nested = delimited ? fields_.Nested(number) : nullptr;
    if (!field.is_payload && field.nested == nullptr) {
      const bool is_read = wire::WireFormatLite::SkipField(&in_, tag);
      field.head = message_.substr(begin, in_.CurrentPosition() - begin);
      return is_read;
    }
    field.head = message_.substr(begin, in_.CurrentPosition() - begin);
    uint32_t length = 0;
    if (!in_.ReadVarint32(&length)) {
      return false;
    }
    field.body = message_.substr(in_.CurrentPosition(), length);
    return in_.Skip(static_cast<int>(length));
  }

 private:
  std::string_view message_;
  const PayloadFields& fields_;
  CodedInputStream in_;
};

size_t ExpandedSize(std::string_view message, const PayloadFields& fields) {
  size_t size = 0;
  FieldReader reader(message, fields);
  for (Field field; reader.Next(field);) {
    size += field.head.size();
    if (field.is_payload || field.nested != nullptr) {
      const size_t body = field.is_payload ? wire::FromField(field.body).size_bytes
                                           : ExpandedSize(field.body, *field.nested);
      size += wire::VarintSize(body) + body;
    }
  }
  return size;
}

// Collects small pieces, and cuts the message at each payload.
class SliceWriter {
 public:
  explicit SliceWriter(const std::vector<grpc::Slice>& payloads) : payloads_(payloads) {}

  void Message(std::string_view message, const PayloadFields& fields) {
    FieldReader reader(message, fields);
    for (Field field; reader.Next(field);) {
      pending_.append(field.head);
      if (field.is_payload) {
        const wire::PayloadReference reference = wire::FromField(field.body);
        wire::AppendVarint(reference.size_bytes, pending_);
        if (reference.size_bytes > 0) {
          Flush();
          slices_.push_back(payloads_[reference.position]);
        }
      } else if (field.nested != nullptr) {
        wire::AppendVarint(ExpandedSize(field.body, *field.nested), pending_);
        Message(field.body, *field.nested);
      }
    }
  }

  grpc::ByteBuffer Finish() {
    Flush();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  void Flush() {
    if (!pending_.empty()) {
      slices_.emplace_back(pending_);
      pending_.clear();
    }
  }

  const std::vector<grpc::Slice>& payloads_;
  std::string pending_;
  std::vector<grpc::Slice> slices_;
};

}  // namespace

grpc::Slice SharedSlice(std::shared_ptr<const void> owner, const void* data, size_t size_bytes) {
  using Owner = std::shared_ptr<const void>;
  auto held = std::make_unique<Owner>(std::move(owner));
  const auto release = [](void* pointer) { std::unique_ptr<Owner>(static_cast<Owner*>(pointer)); };
  return grpc::Slice(const_cast<void*>(data), size_bytes, release, held.release());
}

void Encoder::Attach(grpc::Slice bytes, std::string& payload) {
  if (bytes.size() == 0) {
    payload.clear();
    return;
  }
  const wire::PayloadReference reference = {static_cast<uint32_t>(payloads_.size()),
                                            static_cast<uint32_t>(bytes.size())};
  payload = wire::ToField(reference);
  payloads_.push_back(std::move(bytes));
}

grpc::ByteBuffer Encoder::EncodeEnvelope(const google::protobuf::Message& message,
                                         const PayloadFields& fields) {
  SliceWriter writer(payloads_);
  writer.Message(message.SerializeAsString(), fields);
  return writer.Finish();
}

}  // namespace attention
