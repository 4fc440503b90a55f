// What the decoder knows of a message type: how each field is encoded, and how many elements it may
// have.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

namespace attention {

/// Large `bytes` that are never copied through a std::string.
bool IsPayloadField(const google::protobuf::FieldDescriptor& field);

/// How many elements a field of a request may have in the whole request, however they are spread
/// over messages, when an element takes more memory than it has bytes on the wire; null for a field
/// without a bound.
const int64_t* MaxElementsOf(const google::protobuf::FieldDescriptor& field);

/// The fields of one message type and of all below it; built once per type. Immutable; thread-safe.
class EnvelopeFields {
 public:
  struct Field {
    enum class Encoding { kPayload, kMessage, kBytes, kVarint, kFixed32, kFixed64 };
    const google::protobuf::FieldDescriptor* descriptor = nullptr;
    Encoding encoding = Encoding::kBytes;
    /// Of kMessage.
    std::unique_ptr<const EnvelopeFields> nested = nullptr;
    int64_t max_elements = std::numeric_limits<int64_t>::max();
    /// Which of `num_counters` counts its elements; -1: none.
    int counter = -1;
  };

  /// REQUIRES: no message type below `type` contains itself.
  explicit EnvelopeFields(const google::protobuf::Descriptor& type);

  /// Null for a number that the type does not have.
  const Field* Find(uint32_t number) const;
  /// Counters of this and all below.
  int num_counters() const { return static_cast<int>(counted_.size()); }
  /// The field that a counter counts.
  const Field& counted(int counter) const { return *counted_[static_cast<size_t>(counter)]; }

 private:
  EnvelopeFields(const google::protobuf::Descriptor& type, std::vector<const Field*>& counted);
  void Add(const google::protobuf::Descriptor& type, std::vector<const Field*>& counted);

  std::map<uint32_t, Field> fields_;
  std::vector<const Field*> counted_;  // of the root
};

/// The fields of generated type M.
template <typename M>
const EnvelopeFields& EnvelopeFieldsOf() {
  static const EnvelopeFields fields(*M::descriptor());
  return fields;
}

}  // namespace attention
