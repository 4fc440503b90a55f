#include "server/services/open_inference/infer_inputs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"
#include "proto/codec/request_limits.h"
#include "proto/codec/tensor.h"
#include "server/services/open_inference/native_errors.h"
#include "server/services/open_inference/typed_contents.h"
#include "server/services/plan/field_error.h"

namespace attention {
namespace {

using WireInput = inference::ModelInferRequest::InferInputTensor;

int64_t ElementBytes(const std::string& datatype) {
  return datatype == "INT64" ? 8 : datatype == "FP32" || datatype == "INT32" ? 4 : 2;
}

std::string NamesOf(const std::vector<TensorInterface>& tensors) {
  return absl::StrJoin(tensors, ", ", [](std::string* out, const TensorInterface& tensor) {
    absl::StrAppend(out, "\"", tensor.name, "\"");
  });
}

absl::Status CheckShape(const std::string& owner, const Shape& shape, const Shape& expected) {
  if (std::ranges::any_of(shape, [](int64_t extent) { return extent < 0; })) {
    return Wrong(owner, ": expected extents of 0 or more, found shape ", ShapeText(shape));
  }
  bool fits = shape.size() == expected.size();
  for (size_t axis = 0; fits && axis < shape.size(); ++axis) {
    fits = expected[axis] < 0 || shape[axis] == expected[axis];
  }
  return fits
             ? absl::OkStatus()
             : Wrong(owner, ": expected shape ", ShapeText(expected), ", found ", ShapeText(shape));
}

// Returns the size in bytes.
absl::StatusOr<int64_t> SizeBytes(const std::string& owner, const InferInput& input) {
  const std::optional<int64_t> size = CheckedBytes(input.shape, ElementBytes(input.datatype));
  if (!size.has_value()) {
    return Wrong(owner, ": expected a size below 2^63 bytes, found shape ", ShapeText(input.shape));
  }
  return *size;
}

// Refuses too many integers before they are copied.
absl::Status CheckNumIntegers(const std::string& owner, const InferInput& input,
                              int64_t size_bytes) {
  const int64_t count = size_bytes / ElementBytes(input.datatype);
  return !input.datatype.starts_with("INT") || count <= kMaxIntegersOfInput
             ? absl::OkStatus()
             : absl::ResourceExhaustedError(absl::StrCat(
                   owner, ": expected at most ", kMaxIntegersOfInput, " integers, found ", count));
}

class InputReader {
 public:
  InputReader(const inference::ModelInferRequest& request, const InferTarget& target,
              const InputSources& sources)
      : request_(request),
        target_(target),
        interface_(InterfaceOf(target)),
        sources_(sources),
        message_bytes_(static_cast<int64_t>(sources.wire.Length())) {}

  absl::StatusOr<InferInputs> Read() {
    for (const WireInput& wire : request_.inputs()) {
      RETURN_IF_ERROR(ReadOne(wire));
    }
    RETURN_IF_ERROR(CheckComplete());
    inputs_.bytes = std::make_shared<const ReceivedBytes>(sources_.wire, std::move(appended_));
    return std::move(inputs_);
  }

 private:
  absl::Status ReadOne(const WireInput& wire) {
    const auto found =
        std::find_if(interface_.inputs.begin(), interface_.inputs.end(),
                     [&](const TensorInterface& tensor) { return tensor.name == wire.name(); });
    if (found == interface_.inputs.end()) {
      return Wrong("inputs: expected ", NamesOf(interface_.inputs), " of ", NameInErrors(target_),
                   ", found \"", wire.name(), "\"");
    }
    const std::string owner = InputName(wire.name());
    if (inputs_.by_name.contains(wire.name())) {
      return Wrong(owner, ": expected one of this name, found a second");
    }
    const std::vector<std::string>& datatypes = found->datatypes;
    if (std::find(datatypes.begin(), datatypes.end(), wire.datatype()) == datatypes.end()) {
      return Wrong(owner, ": expected datatype ", absl::StrJoin(datatypes, " or "), ", found \"",
                   wire.datatype(), "\"");
    }
    InferInput input = {.datatype = wire.datatype(),
                        .shape = {wire.shape().begin(), wire.shape().end()},
                        .reference = {}};
    RETURN_IF_ERROR(CheckShape(owner, input.shape, found->shape));
    ASSIGN_OR_RETURN(const int64_t size_bytes, SizeBytes(owner, input));
    RETURN_IF_ERROR(CheckNumIntegers(owner, input, size_bytes));
    ASSIGN_OR_RETURN(input.reference, Locate(wire, input, size_bytes));
    inputs_.by_name.emplace(wire.name(), std::move(input));
    return absl::OkStatus();
  }

  absl::StatusOr<wire::PayloadReference> Locate(const WireInput& wire, const InferInput& input,
                                                int64_t size_bytes) {
    const std::string owner = InputName(wire.name());
    ASSIGN_OR_RETURN(const std::optional<RegionRange> range,
                     ReadRegionRange(wire.parameters(), owner));
    const bool is_raw = !request_.raw_input_contents().empty();
    if (wire.has_contents() && (is_raw || range.has_value())) {
      return Wrong(owner, ": expected no contents beside ",
                   range.has_value() ? "shared memory" : "raw_input_contents", ", found some");
    }
    if (range.has_value()) {
      return FromSharedMemory(owner, *range, size_bytes);
    }
    return is_raw ? FromRaw(owner, input, size_bytes) : FromContents(owner, wire, size_bytes);
  }

  // Returns an input's entry of raw_input_contents. The entries are those of the inputs that are
  // not in shared memory, in their order.
  absl::StatusOr<wire::PayloadReference> FromRaw(const std::string& owner, const InferInput& input,
                                                 int64_t size_bytes) {
    const int index = next_raw_++;
    if (index >= request_.raw_input_contents_size()) {
      return Wrong(owner, ": expected an entry ", index, " of raw_input_contents, found ",
                   request_.raw_input_contents_size(), " entries");
    }
    const auto reference = wire::FromField(request_.raw_input_contents(index));
    if (reference.size_bytes != size_bytes) {
      return Wrong(owner, ": expected ", size_bytes, " bytes for ", input.datatype, " ",
                   ShapeText(input.shape), ", found ", reference.size_bytes,
                   " in raw_input_contents[", index, "]");
    }
    return reference;
  }

  absl::StatusOr<wire::PayloadReference> FromContents(const std::string& owner,
                                                      const WireInput& wire, int64_t size_bytes) {
    const TypedContents contents = ContentsOf(wire.contents(), wire.datatype());
    const std::string other = OtherField(wire.contents(), contents.field);
    const std::string expected = contents.field == nullptr
                                     ? absl::StrCat("raw_input_contents for ", wire.datatype())
                                     : absl::StrCat(size_bytes / ElementBytes(wire.datatype()),
                                                    " values in ", contents.field);
    if (!other.empty()) {
      return Wrong(owner, ": expected ", expected, ", found ", other);
    }
    if (contents.count * ElementBytes(wire.datatype()) != size_bytes) {
      return Wrong(owner, ": expected ", expected, ", found ",
                   contents.count == 0 ? "none" : absl::StrCat(contents.count),
                   contents.count == 0 ? ", nor raw_input_contents" : "");
    }
    return Append(owner, size_bytes, [&](void* target) {
      std::memcpy(target, contents.values, static_cast<size_t>(size_bytes));
      return absl::OkStatus();
    });
  }

  absl::StatusOr<wire::PayloadReference> FromSharedMemory(const std::string& owner,
                                                          const RegionRange& range,
                                                          int64_t size_bytes) {
    RETURN_IF_ERROR(CheckSharedMemory(sources_.shared_memory, sources_.caller));
    if (range.byte_size != size_bytes) {
      return Wrong(owner, ": expected ", size_bytes, " bytes, found a shared_memory_byte_size of ",
                   range.byte_size);
    }
    const auto region = sources_.shared_memory->Find(range);
    if (!region.ok()) {
      return Prefixed(owner, region.status());
    }
    return Append(owner, size_bytes, [&](void* target) {
      return Prefixed(owner, (*region)->Read(range.offset, size_bytes, target));
    });
  }

  // Appends `size_bytes` bytes to the message, which `fill` writes.
  template <typename Fill>
  absl::StatusOr<wire::PayloadReference> Append(const std::string& owner, int64_t size_bytes,
                                                const Fill& fill) {
    if (size_bytes == 0) {
      return wire::PayloadReference();
    }
    // References have 32 bits.
    const int64_t room =
        std::min<int64_t>(sources_.max_appended_bytes,
                          int64_t{std::numeric_limits<uint32_t>::max()} - message_bytes_) -
        inputs_.appended_bytes;
    if (size_bytes > room) {
      return absl::ResourceExhaustedError(absl::StrCat(
          owner, ": expected at most ", sources_.max_appended_bytes,
          " bytes of inputs (--max-message-bytes), found ", inputs_.appended_bytes + size_bytes));
    }
    RETURN_IF_ERROR(sources_.terms.Reserve(size_bytes));
    const auto buffer = std::make_shared<AlignedBuffer>(static_cast<size_t>(size_bytes));
    RETURN_IF_ERROR(fill(buffer->data()));
    appended_.push_back(SharedSlice(buffer, buffer->data(), buffer->size_bytes()));
    const wire::PayloadReference reference = {
        static_cast<uint32_t>(message_bytes_ + inputs_.appended_bytes),
        static_cast<uint32_t>(size_bytes)};
    inputs_.appended_bytes += size_bytes;
    return reference;
  }

  absl::Status CheckComplete() const {
    if (next_raw_ < request_.raw_input_contents_size()) {
      return Wrong("raw_input_contents: expected ", next_raw_,
                   " entries, one for each input that is not in shared memory, found ",
                   request_.raw_input_contents_size());
    }
    for (const TensorInterface& tensor : interface_.inputs) {
      if (!tensor.is_optional && !inputs_.by_name.contains(tensor.name)) {
        return Wrong("inputs: expected \"", tensor.name, "\" of ", NameInErrors(target_),
                     ", found none");
      }
    }
    return absl::OkStatus();
  }

  const inference::ModelInferRequest& request_;
  const InferTarget& target_;
  const ModelInterface interface_;
  const InputSources& sources_;
  const int64_t message_bytes_;
  int next_raw_ = 0;
  std::vector<grpc::Slice> appended_;
  InferInputs inputs_;
};

}  // namespace

const InferInput* InferInputs::Find(const std::string& name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &found->second;
}

std::vector<int64_t> InferInputs::Integers(const InferInput& input) const {
  const Payload payload(bytes, input.reference.position, input.reference.size_bytes);
  if (input.datatype == "INT64") {
    std::vector<int64_t> values(payload.size_bytes() / sizeof(int64_t));
    payload.CopyTo(0, payload.size_bytes(), values.data());
    return values;
  }
  std::vector<int32_t> values(payload.size_bytes() / sizeof(int32_t));
  payload.CopyTo(0, payload.size_bytes(), values.data());
  return {values.begin(), values.end()};
}

int64_t BytesToRead(const inference::ModelInferRequest& request, int64_t max_shared_bytes) {
  int64_t bytes = 0;
  int64_t shared_left = max_shared_bytes;
  int next_raw = 0;
  for (const WireInput& input : request.inputs()) {
    const int64_t weight = input.datatype() == "BYTES" ? kTextWeight : 1;
    const auto range = input.parameters().find("shared_memory_byte_size");
    if (range != input.parameters().end()) {
      const inference::InferParameter& size = range->second;  // either type, as in ReadCount
      const uint64_t claimed =
          size.has_uint64_param() ? size.uint64_param()
                                  : static_cast<uint64_t>(std::max<int64_t>(size.int64_param(), 0));
      const auto counted =
          static_cast<int64_t>(std::min(claimed, static_cast<uint64_t>(shared_left)));
      shared_left -= counted;
      bytes += weight * counted;
    } else if (next_raw < request.raw_input_contents_size()) {
      const auto raw = wire::FromField(request.raw_input_contents(next_raw++));
      // An integer costs at most as much as two bytes that protobuf parses.
      bytes += absl::StartsWith(input.datatype(), "INT") ? raw.size_bytes / 4
               : input.datatype() == "BYTES"             ? weight * raw.size_bytes
                                                         : 0;
    }
  }
  return bytes;
}

absl::StatusOr<InferInputs> ReadInputs(const inference::ModelInferRequest& request,
                                       const InferTarget& target, const InputSources& sources) {
  return InputReader(request, target, sources).Read();
}

}  // namespace attention
