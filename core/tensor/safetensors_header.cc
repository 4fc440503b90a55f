#include "core/tensor/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/json_object.h"
#include "core/runtime/json_text.h"
#include "core/runtime/status_macros.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using nlohmann::json;

constexpr StoredDtypeInfo kStoredDtypes[] = {
    {"F32", StoredDtype::kF32, 4},
    {"BF16", StoredDtype::kBf16, 2},
    {"F16", StoredDtype::kF16, 2},
    {"F64", StoredDtype::kF64, 8},
    {"I64", StoredDtype::kI64, 8},
    {"I32", StoredDtype::kI32, 4},
    {"U8", StoredDtype::kU8, 1},
    {"BOOL", StoredDtype::kBool, 1},
    // Types of quantised weights and of buffers, which may be in a file beside tensors that are
    // read.
    {"I8", StoredDtype::kOther, 1},
    {"I16", StoredDtype::kOther, 2},
    {"U16", StoredDtype::kOther, 2},
    {"U32", StoredDtype::kOther, 4},
    {"U64", StoredDtype::kOther, 8},
    {"C64", StoredDtype::kOther, 8},
    {"F8_E4M3", StoredDtype::kOther, 1},
    {"F8_E5M2", StoredDtype::kOther, 1},
    {"F8_E8M0", StoredDtype::kOther, 1},
};

// Returns an error that names the tensor.
template <typename... Args>
absl::Status TensorError(const std::string& name, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("tensor \"", name, "\": ", args...));
}

absl::StatusOr<StoredDtypeInfo> ParseDtype(const JsonObject& tensor) {
  ASSIGN_OR_RETURN(const std::string name, tensor.String("dtype"));
  for (const StoredDtypeInfo& known : kStoredDtypes) {
    if (name == known.name) {
      return known;
    }
  }
  return tensor.Wrong("dtype", "a dtype of safetensors such as F32");
}

absl::StatusOr<SafetensorsEntry> ParseEntry(const std::string& name, const json& json_entry) {
  ASSIGN_OR_RETURN(const JsonObject tensor,
                   JsonObject::Create(json_entry, absl::StrCat("tensor \"", name, "\"")));
  SafetensorsEntry entry{.name = name, .dtype = {}, .shape = {}};
  constexpr JsonObject::Range<int64_t> kSizes = {0, std::numeric_limits<int64_t>::max()};
  ASSIGN_OR_RETURN(entry.dtype, ParseDtype(tensor));
  ASSIGN_OR_RETURN(entry.shape, tensor.WholeNumbers("shape", kSizes));
  ASSIGN_OR_RETURN(const Shape offsets, tensor.WholeNumbers("data_offsets", kSizes));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return tensor.Wrong("data_offsets", "[begin, end] with begin <= end", ShapeText(offsets));
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const std::optional<int64_t> size_bytes = CheckedBytes(entry.shape, entry.dtype.size_bytes);
  if (!size_bytes.has_value()) {
    return TensorError(name, "expected a size below 2^63 bytes, found ", ShapeText(entry.shape),
                       " of ", entry.dtype.name);
  }
  if (entry.end - entry.begin != static_cast<uint64_t>(*size_bytes)) {
    return TensorError(name, "expected ", *size_bytes, " bytes for shape ", ShapeText(entry.shape),
                       " of ", entry.dtype.name, ", found data_offsets of ",
                       entry.end - entry.begin, " bytes");
  }
  return entry;
}

// Checks that the tensors fill the bytes after the header without gap or overlap. Sorts them by
// their position in the file.
absl::Status CheckLayout(std::vector<SafetensorsEntry>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  uint64_t filled = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.end > data_bytes) {
      return TensorError(entry.name, "expected data_offsets within the file's ", data_bytes,
                         " bytes of data, found end ", entry.end);
    }
    if (entry.begin != filled) {
      return TensorError(entry.name, "expected data to begin at byte ", filled,
                         " where the one before ends, found ", entry.begin,
                         entry.begin < filled ? " (overlap)" : " (gap)");
    }
    filled = entry.end;
  }
  if (filled != data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("expected tensors to fill the file's ",
                                                   data_bytes, " bytes of data, found ", filled,
                                                   " bytes described"));
  }
  return absl::OkStatus();
}

absl::StatusOr<json> ParseHeader(const std::string& text) {
  ASSIGN_OR_RETURN(json header, ParseJsonObject(text, "header"));
  if (const std::optional<std::string> repeated = RepeatedJsonName(text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header: expected each tensor and member once, found \"", *repeated, "\" again"));
  }
  return header;
}

}  // namespace

absl::Status CheckHeaderBytes(uint64_t header_bytes, uint64_t file_bytes) {
  constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
  if (file_bytes < kLengthBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected at least the ", kLengthBytes, " bytes of a header length, found ", file_bytes));
  }
  if (header_bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("expected a header of at most ", kMaxHeaderBytes,
                                                   " bytes, found a length of ", header_bytes));
  }
  if (header_bytes > file_bytes - kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file ends inside its header: expected at least ",
                     kLengthBytes + header_bytes, " bytes, found ", file_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(const std::string& text,
                                                                     uint64_t data_bytes) {
  ASSIGN_OR_RETURN(const json header, ParseHeader(text));
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, json_entry] : header.items()) {
    if (name == kMetadataName) {
      continue;
    }
    ASSIGN_OR_RETURN(SafetensorsEntry entry, ParseEntry(name, json_entry));
    entries.push_back(std::move(entry));
  }
  RETURN_IF_ERROR(CheckLayout(entries, data_bytes));
  return entries;
}

absl::StatusOr<std::map<std::string, std::string>> ParseSafetensorsMetadata(
    const std::string& text) {
  ASSIGN_OR_RETURN(const json header, ParseHeader(text));
  ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Create(header, ""));
  return object.Find(kMetadataName) == nullptr ? std::map<std::string, std::string>()
                                               : object.StringsByName(kMetadataName);
}

}  // namespace attention
