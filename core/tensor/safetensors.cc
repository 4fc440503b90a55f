#include "core/tensor/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/output_file.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/round_up.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/safetensors_header.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

template <typename Stored>
absl::Status ConvertToF32(const SafetensorsEntry& entry, const std::byte* stored, Tensor& tensor) {
  float* values = tensor.as<float>();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    Stored value;
    std::memcpy(&value, stored + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<float>(value);
    // A long double holds every 64-bit integer.
    if (std::is_integral_v<Stored> &&
        static_cast<long double>(values[i]) != static_cast<long double>(value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", entry.name,
          "\": expected integers that a 32-bit float holds exactly, found ", value, " at ", i));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadBytes(std::ifstream& file, void* target, uint64_t size_bytes) {
  file.read(static_cast<char*>(target), static_cast<std::streamsize>(size_bytes));
  if (!file) {
    return absl::DataLossError(
        absl::StrCat("expected ", size_bytes, " more bytes, found ", file.gcount()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ReadTensor(std::ifstream& file, const SafetensorsEntry& entry) {
  const auto read_as = [&](Dtype dtype) -> absl::StatusOr<Tensor> {
    Tensor tensor(dtype, entry.shape);
    RETURN_IF_ERROR(ReadBytes(file, tensor.data(), tensor.size_bytes()));
    return tensor;
  };
  const auto read_converted = [&](auto convert) -> absl::StatusOr<Tensor> {
    std::vector<std::byte> stored(entry.end - entry.begin);
    RETURN_IF_ERROR(ReadBytes(file, stored.data(), stored.size()));
    Tensor tensor(Dtype::kF32, entry.shape);
    RETURN_IF_ERROR(convert(entry, stored.data(), tensor));
    return tensor;
  };
  switch (entry.dtype.dtype) {
    case StoredDtype::kF32:
      return read_as(Dtype::kF32);
    case StoredDtype::kBf16:
      return read_as(Dtype::kBf16);
    case StoredDtype::kF16:
      return read_as(Dtype::kF16);
    case StoredDtype::kF64:
      return read_converted(ConvertToF32<double>);
    case StoredDtype::kI64:
      return read_converted(ConvertToF32<int64_t>);
    case StoredDtype::kI32:
      return read_converted(ConvertToF32<int32_t>);
    case StoredDtype::kOther:
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", entry.name,
                       "\": expected dtype F32, BF16, F16, F64, I64, I32, U8 or BOOL, found \"",
                       entry.dtype.name, "\""));
    case StoredDtype::kU8:
    case StoredDtype::kBool:
      break;
  }
  return read_converted(ConvertToF32<uint8_t>);
}

absl::StatusOr<std::string> ReadHeader(std::ifstream& file, uint64_t file_bytes) {
  uint64_t header_bytes = 0;
  if (file_bytes >= kLengthBytes) {
    RETURN_IF_ERROR(ReadBytes(file, &header_bytes, kLengthBytes));
  }
  RETURN_IF_ERROR(CheckHeaderBytes(header_bytes, file_bytes));
  std::string header(header_bytes, '\0');
  RETURN_IF_ERROR(ReadBytes(file, header.data(), header_bytes));
  return header;
}

absl::StatusOr<NamedTensors> ReadContents(std::ifstream& file, uint64_t file_bytes) {
  ASSIGN_OR_RETURN(const std::string header, ReadHeader(file, file_bytes));
  ASSIGN_OR_RETURN(const std::vector<SafetensorsEntry> entries,
                   ParseSafetensorsHeader(header, file_bytes - kLengthBytes - header.size()));
  NamedTensors tensors;
  for (const SafetensorsEntry& entry : entries) {
    ASSIGN_OR_RETURN(tensors[entry.name], ReadTensor(file, entry));
  }
  return tensors;
}

absl::StatusOr<SafetensorsMetadata> ReadMetadata(std::ifstream& file, uint64_t file_bytes) {
  ASSIGN_OR_RETURN(const std::string header, ReadHeader(file, file_bytes));
  return ParseSafetensorsMetadata(header);
}

/// Returns the result of `read` for the file. Errors name `path`.
template <typename Read>
auto ReadFile(const std::string& path, Read read)
    -> decltype(read(std::declval<std::ifstream&>(), uint64_t{0})) {
  std::error_code error;
  const uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), "cannot read " + path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::ErrnoToStatus(errno, "cannot read " + path);
  }
  auto contents = read(file, file_bytes);
  return contents.ok() ? std::move(contents) : Prefixed(path, contents.status());
}

const char* StoredName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "F32";
    case Dtype::kBf16:
      return "BF16";
    case Dtype::kF16:
      break;
  }
  return "F16";
}

using NamedValue = std::pair<std::string, ValuesToStore>;

// Returns the length and the JSON of the header, padded so that the data after it is aligned to 8
// bytes.
std::string HeaderOf(const std::vector<NamedValue>& tensors, const SafetensorsMetadata& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) {
    header[kMetadataName] = metadata;
  }
  uint64_t begin = 0;
  for (const auto& [name, values] : tensors) {
    const uint64_t end = begin + values.bytes.size();
    header[name] = {
        {"dtype", values.dtype}, {"shape", values.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize(RoundUp(text.size(), kLengthBytes), ' ');
  const uint64_t header_bytes = text.size();
  return std::string(reinterpret_cast<const char*>(&header_bytes), kLengthBytes) + text;
}

}  // namespace

absl::StatusOr<NamedTensors> ReadSafetensors(const std::string& path) {
  return ReadFile(path, ReadContents);
}

absl::StatusOr<SafetensorsMetadata> ReadSafetensorsMetadata(const std::string& path) {
  return ReadFile(path, ReadMetadata);
}

ValuesToStore::ValuesToStore(const Tensor* tensor)
    : dtype(StoredName(tensor->dtype())),
      shape(tensor->shape()),
      element_bytes(static_cast<int64_t>(SizeOf(tensor->dtype()))),
      bytes(tensor->as<char>(), tensor->size_bytes()) {}

ValuesToStore::ValuesToStore(Shape its_shape, std::span<const int32_t> integers)
    : dtype("I32"),
      shape(std::move(its_shape)),
      element_bytes(sizeof(int32_t)),
      bytes(reinterpret_cast<const char*>(integers.data()), integers.size_bytes()) {}

absl::Status WriteSafetensors(const std::string& path, const NamedValues& tensors,
                              const SafetensorsMetadata& metadata) {
  // Tensors of wide elements come first, so that each tensor is aligned in the file.
  std::vector<NamedValue> ordered(tensors.begin(), tensors.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const NamedValue& a, const NamedValue& b) {
    return a.second.element_bytes > b.second.element_bytes;
  });
  const std::string header = HeaderOf(ordered, metadata);
  std::vector<absl::string_view> parts = {header};
  for (const auto& [name, values] : ordered) {
    parts.emplace_back(values.bytes.data(), values.bytes.size());
  }
  return WriteFile(path, parts);
}

}  // namespace attention
