// The decoder's knowledge of a message type: how each field is encoded, and how many elements it
// may have.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace attention {

/// Returns whether the field holds large `bytes`, which are never copied through a std::string.
bool IsPayloadField(const google::protobuf::FieldDescriptor& field);

/// Returns the number of elements that a field may have in a whole request, however they are spread
/// over messages; empty for a field without a bound.
std::optional<int64_t> MaxElementsOf(const google::protobuf::FieldDescriptor& field);

/// The fields of one message type and of all types below it; built once per type. Immutable;
/// thread-safe.
class EnvelopeFields {
 public:
  struct Field {
    enum class Encoding { kPayload, kMessage, kBytes, kVarint, kFixed32, kFixed64 };
    const google::protobuf::FieldDescriptor* descriptor = nullptr;
    Encoding encoding = Encoding::kBytes;
    /// The fields of the nested type, for kMessage.
    std::unique_ptr<const EnvelopeFields> nested = nullptr;
    int64_t max_elements = std::numeric_limits<int64_t>::max();
    /// The index of the counter of its elements, below `num_counters`; -1: none.
    int counter = -1;
  };

  /// REQUIRES: no message type below `type` contains itself.
  explicit EnvelopeFields(const google::protobuf::Descriptor& type);

  /// Returns null for a number that the type does not have.
  const Field* Find(uint32_t number) const;
  /// Returns the number of counters of this type and of all types below it.
  int num_counters() const { return static_cast<int>(counted_.size()); }
  /// Returns the field that a counter counts.
  const Field& counted(int counter) const { return *counted_[static_cast<size_t>(counter)]; }

 private:
  EnvelopeFields(const google::protobuf::Descriptor& type, std::vector<const Field*>& counted);
  void Add(const google::protobuf::Descriptor& type, std::vector<const Field*>& counted);

  std::map<uint32_t, Field> fields_;
  std::vector<const Field*> counted_;  // of the root type only
};

/// The fields of generated type M.
template <typename M>
const EnvelopeFields& EnvelopeFieldsOf() {
  static const EnvelopeFields fields(*M::descriptor());
  return fields;
}

}  // namespace attention
