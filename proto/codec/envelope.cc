#include "proto/codec/envelope.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/utf8.h"
#include "proto/codec/wire.h"

namespace attention {
namespace {

using google::protobuf::io::CodedInputStream;

// The maximum bytes of a tag. A longer tag has bits that ReadTag would drop.
constexpr int kMaxTagBytes = 5;
// The bytes reserved for the length of any message.
constexpr size_t kLengthBytes = 5;
// The maximum number of fields of any kind: each takes time, and some take more memory than their
// two bytes on the wire. The largest answer of ListModels or of a step has fewer.
constexpr int64_t kMaxFields = int64_t{1} << 22;
// How often nested messages may come again that are no elements of a list. Protobuf merges them, so
// an encoder may write a message in several parts. Two million took 0.2 s, from 4 KB of gzip.
constexpr int64_t kMaxRepetitions = int64_t{1} << 10;
// The maximum bytes of a text that is no element of a list: a name, an id or a parameter.
constexpr uint32_t kMaxNameBytes = uint32_t{1} << 16;
// The maximum bytes of an integer.
constexpr int64_t kMaxVarintBytes = 10;
// How many fields are read between two calls of `begin`, and how much memory each call announces.
constexpr int64_t kFieldsBetweenCalls = int64_t{1} << 16;
constexpr int64_t kBlockBytes = int64_t{1} << 20;
// The memory of a byte of the rewritten message: the string may be copied while it grows, and
// protobuf copies it again.
constexpr int64_t kBytesPerByte = 3;
// The memory of an integer of a list, besides its bytes.
constexpr int64_t kIntegerBytes = 8;
// The bytes of a field on the wire that are no payload, at most, unless it has a length.
constexpr int64_t kScalarBytes = 20;

using KnownField = EnvelopeFields::Field;
using Encoding = KnownField::Encoding;

wire::WireFormatLite::WireType WireTypeOf(Encoding encoding) {
  switch (encoding) {
    case Encoding::kVarint:
      return wire::kVarint;
    case Encoding::kFixed32:
      return wire::kFixed32;
    case Encoding::kFixed64:
      return wire::kFixed64;
    default:
      return wire::kLengthDelimited;
  }
}

// Rewrites one message from `in_` to a string in which payloads are references. Unknown fields and
// elements beyond a field's bound are left out, so neither takes memory. Every function returns
// false for a malformed wire, and when status() is an error.
class Stripper {
 public:
  Stripper(CodedInputStream& in, int size_bytes, const EnvelopeFields& fields,
           const BeginDecoding& begin)
      : in_(in),
        size_bytes_(size_bytes),
        fields_(fields),
        begin_(begin),
        counts_(static_cast<size_t>(fields.num_counters())) {}

  bool Message(std::string& out) { return Message(fields_, out); }

  /// Returns why the rewriting ended, unless the wire is malformed.
  const absl::Status& status() const { return status_; }

  /// Checks that no field has more elements than it may have.
  absl::Status CheckCounts() const {
    for (int i = 0; i < fields_.num_counters(); ++i) {
      const KnownField& field = fields_.counted(i);
      if (const int64_t count = counts_[static_cast<size_t>(i)]; count > field.max_elements) {
        return absl::InvalidArgumentError(absl::StrCat(field.descriptor->full_name(),
                                                       ": expected at most ", field.max_elements,
                                                       " in a message, found ", count));
      }
    }
    return absl::OkStatus();
  }

 private:
  // Rewrites the message from here to the stream's current limit.
  bool Message(const EnvelopeFields& fields, std::string& out) {
    std::set<int> nested;  // the numbers of nested messages that have come
    while (true) {
      const int begin = in_.CurrentPosition();
      const uint32_t tag = in_.ReadTag();
      if (tag == 0) {
        return in_.ConsumedEntireMessage();
      }
      if (wire::FieldNumber(tag) == 0 || in_.CurrentPosition() - begin > kMaxTagBytes) {
        return false;
      }
      const KnownField* const field = fields.Find(wire::FieldNumber(tag));
      if (!BeginField() || !MayCome(field, nested)) {
        return false;
      }
      const bool ok = wire::WireType(tag) == wire::kLengthDelimited ? Delimited(tag, field, out)
                                                                    : Scalar(tag, field, out);
      if (!ok) {
        return false;
      }
    }
  }

  bool BeginField() {
    if (++num_fields_ > kMaxFields) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("expected at most ", kMaxFields, " fields in a message, found more"));
    } else if (begin_ != nullptr && num_fields_ % kFieldsBetweenCalls == 0) {
      status_ = begin_(0);
    }
    return status_.ok();
  }

  // Returns whether a field may come, also if it is a nested message that has come already.
  bool MayCome(const KnownField* field, std::set<int>& nested) {
    const bool is_single = field != nullptr && field->encoding == Encoding::kMessage &&
                           !field->descriptor->is_repeated();
    if (is_single && !nested.insert(field->descriptor->number()).second &&
        ++num_repetitions_ > kMaxRepetitions) {
      status_ = absl::InvalidArgumentError(absl::StrCat(field->descriptor->full_name(),
                                                        ": expected once in a message; the message "
                                                        "repeats such fields more than ",
                                                        kMaxRepetitions, " times"));
    }
    return status_.ok();
  }

  // Announces memory before it is taken.
  bool Take(int64_t bytes) {
    for (taken_bytes_ += bytes; begin_ != nullptr && announced_bytes_ < taken_bytes_;) {
      status_ = begin_(kBlockBytes);
      if (!status_.ok()) {
        return false;
      }
      announced_bytes_ += kBlockBytes;
    }
    return true;
  }

  // Returns whether so many more elements are within the field's bound.
  bool HasRoom(const KnownField& field, int64_t elements) const {
    return field.counter < 0 ||
           counts_[static_cast<size_t>(field.counter)] + elements <= field.max_elements;
  }

  // Counts elements; returns whether they are within the field's bound.
  bool Count(const KnownField& field, int64_t elements) {
    if (field.counter < 0) {
      return true;
    }
    int64_t& count = counts_[static_cast<size_t>(field.counter)];
    count += elements;
    return count <= field.max_elements;
  }

  // Rewrites a scalar. Groups are refused, since no message of the API has one.
  bool Scalar(uint32_t tag, const KnownField* field, std::string& out) {
    const auto type = wire::WireType(tag);
    const bool is_kept =
        field != nullptr && WireTypeOf(field->encoding) == type && Count(*field, 1);
    uint64_t value = 0;
    const int num_bytes = type == wire::kFixed64 ? 8 : type == wire::kFixed32 ? 4 : 0;
    if (num_bytes == 0 && (type != wire::kVarint || !in_.ReadVarint64(&value))) {
      return false;
    }
    if (!is_kept) {
      return in_.Skip(num_bytes);
    }
    if (!Take(kBytesPerByte * kScalarBytes)) {
      return false;
    }
    wire::AppendVarint(tag, out);
    if (num_bytes > 0) {
      return Raw(static_cast<uint32_t>(num_bytes), out);
    }
    wire::AppendVarint(value, out);
    return true;
  }

  bool Delimited(uint32_t tag, const KnownField* field, std::string& out) {
    uint64_t wide_length = 0;
    if (!in_.ReadVarint64(&wide_length) || wide_length > BytesLeft()) {
      return false;
    }
    const auto length = static_cast<uint32_t>(wide_length);
    if (field == nullptr) {
      return in_.Skip(static_cast<int>(length));
    }
    if (WireTypeOf(field->encoding) != wire::kLengthDelimited) {
      return Packed(tag, *field, length, out);
    }
    const bool is_within = Count(*field, 1);
    if (field->encoding == Encoding::kMessage) {
      return Nested(tag, *field, length, is_within, out);
    }
    if (!is_within) {
      return in_.Skip(static_cast<int>(length));
    }
    if (!Take(kBytesPerByte * kScalarBytes)) {
      return false;
    }
    wire::AppendVarint(tag, out);
    if (field->encoding == Encoding::kPayload) {
      const auto position = static_cast<uint32_t>(in_.CurrentPosition());
      const std::string reference = wire::ToField({position, length});
      wire::AppendVarint(reference.size(), out);
      out += reference;
      return in_.Skip(static_cast<int>(length));
    }
    if (!field->descriptor->is_repeated() && length > kMaxNameBytes) {
      status_ = absl::InvalidArgumentError(absl::StrCat(field->descriptor->full_name(),
                                                        ": expected at most ", kMaxNameBytes,
                                                        " bytes, found ", length));
      return false;
    }
    wire::AppendVarint(length, out);
    return Raw(length, out) && IsText(*field, std::string_view(out).substr(out.size() - length));
  }

  // Protobuf would refuse the whole message, write a line to the log, and name no field.
  bool IsText(const KnownField& field, std::string_view bytes) {
    using google::protobuf::FieldDescriptor;
    if (field.descriptor->type() != FieldDescriptor::TYPE_STRING) {
      return true;
    }
    const std::optional<size_t> invalid = FindInvalidUtf8(bytes);
    if (invalid.has_value()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(field.descriptor->full_name(),
                       ": expected UTF-8, found an invalid sequence at byte ", *invalid));
    }
    return !invalid.has_value();
  }

  // Rewrites a nested message; with `is_kept` false it only checks and counts it.
  bool Nested(uint32_t tag, const KnownField& field, uint32_t length, bool is_kept,
              std::string& out) {
    const size_t begin = out.size();
    wire::AppendVarint(tag, out);
    const size_t place = out.size();
    out.append(kLengthBytes, '\0');
    const CodedInputStream::Limit limit = in_.PushLimit(static_cast<int>(length));
    const bool ok = Message(*field.nested, out);
    in_.PopLimit(limit);
    if (is_kept) {
      PutLength(place, out);
    } else {
      out.resize(begin);
    }
    return ok;
  }

  // Writes the length of the bytes after the kLengthBytes at `place`. A length may have more bytes
  // than it needs.
  static void PutLength(size_t place, std::string& out) {
    const size_t length = out.size() - place - kLengthBytes;
    if (length < 128) {
      out[place] = static_cast<char>(length);
      out.erase(place + 1, kLengthBytes - 1);
      return;
    }
    for (size_t i = 0; i < kLengthBytes; ++i) {
      const bool is_last = i + 1 == kLengthBytes;
      out[place + i] = static_cast<char>((length >> (7 * i) & 0x7f) | (is_last ? 0 : 0x80));
    }
  }

  // Rewrites packed numbers. For a field that is not repeated, protobuf treats them as unknown.
  bool Packed(uint32_t tag, const KnownField& field, uint32_t length, std::string& out) {
    if (!field.descriptor->is_repeated()) {
      return in_.Skip(static_cast<int>(length));
    }
    const int64_t width = WidthOf(field.encoding);
    const int64_t fewest =
        width > 0 ? length / width : (length + kMaxVarintBytes - 1) / kMaxVarintBytes;
    if (!HasRoom(field, fewest)) {
      return CountAndSkip(field, length);
    }
    const size_t begin = out.size();
    wire::AppendVarint(tag, out);
    wire::AppendVarint(length, out);
    if (!Raw(length, out)) {
      return false;
    }
    const int64_t count =
        width > 0 ? length / width : NumVarints(out.data() + out.size() - length, length);
    if (!Count(field, count)) {
      out.resize(begin);
      return true;
    }
    return width > 0 || Take(kIntegerBytes * count);
  }

  // Counts packed numbers that are too many, without taking memory for them.
  bool CountAndSkip(const KnownField& field, uint32_t length) {
    if (const int64_t width = WidthOf(field.encoding); width > 0) {
      Count(field, length / width);
      return in_.Skip(static_cast<int>(length));
    }
    while (length > 0) {
      const void* data = nullptr;
      int size = 0;
      if (!in_.GetDirectBufferPointer(&data, &size)) {
        return false;
      }
      const uint32_t part = std::min(static_cast<uint32_t>(size), length);
      Count(field, NumVarints(static_cast<const char*>(data), part));
      length -= part;
      status_ = begin_ != nullptr ? begin_(0) : absl::OkStatus();
      if (!status_.ok() || !in_.Skip(static_cast<int>(part))) {
        return false;
      }
    }
    return true;
  }

  // Returns the bytes of a number; 0 for a varint.
  static int64_t WidthOf(Encoding encoding) {
    return encoding == Encoding::kFixed64 ? 8 : encoding == Encoding::kFixed32 ? 4 : 0;
  }

  // The last byte of each varint is the one without the high bit.
  static int64_t NumVarints(const char* bytes, uint32_t length) {
    return std::count_if(bytes, bytes + length, [](char byte) { return (byte & 0x80) == 0; });
  }

  bool Raw(uint32_t count, std::string& out) {
    if (count > BytesLeft() || !Take(kBytesPerByte * count)) {
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
  const EnvelopeFields& fields_;
  const BeginDecoding& begin_;
  absl::Status status_;
  int64_t num_fields_ = 0;
  int64_t num_repetitions_ = 0;
  int64_t taken_bytes_ = 0;
  int64_t announced_bytes_ = kBlockBytes;  // the first block is not announced
  /// The counts, by counter.
  std::vector<int64_t> counts_;
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

absl::Status DecodeEnvelope(const grpc::ByteBuffer& wire, const EnvelopeFields& fields,
                            google::protobuf::Message& message, const BeginDecoding& begin) {
  const size_t size_bytes = wire.Valid() ? wire.Length() : 0;
  const std::string type(message.GetDescriptor()->full_name());
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
  Stripper stripper(in, static_cast<int>(size_bytes), fields, begin);
  std::string stripped;
  const bool is_read = stripper.Message(stripped);
  RETURN_IF_ERROR(stripper.status());
  if (is_read) {
    RETURN_IF_ERROR(stripper.CheckCounts());
  }
  if (!is_read || !message.ParseFromString(stripped)) {
    return absl::InvalidArgumentError(absl::StrCat("expected a message ", type, ", found ",
                                                   size_bytes, " bytes that cannot be parsed"));
  }
  return absl::OkStatus();
}

}  // namespace attention
