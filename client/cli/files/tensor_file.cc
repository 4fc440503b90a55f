#include "client/cli/files/tensor_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/files/npy.h"
#include "client/cli/files/shape_text.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

constexpr char kRandom[] = "random:";

std::string NamesOf(const NamedTensors& tensors) {
  return absl::StrJoin(tensors, ", ",
                       [](std::string* out, const auto& entry) { out->append(entry.first); });
}

absl::StatusOr<Tensor> PickTensor(const std::string& path, const std::string& name) {
  ASSIGN_OR_RETURN(NamedTensors tensors, ReadSafetensors(path));
  if (tensors.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a tensor, found none"));
  }
  if (name.empty() && tensors.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   ": expected FILE:TENSOR, because it holds ",
                                                   tensors.size(), " tensors: ", NamesOf(tensors)));
  }
  const auto found = name.empty() ? tensors.begin() : tensors.find(name);
  if (found == tensors.end()) {
    return absl::NotFoundError(
        absl::StrCat(path, ": expected a tensor \"", name, "\", found: ", NamesOf(tensors)));
  }
  return std::move(found->second);
}

}  // namespace

absl::StatusOr<Tensor> LoadTensor(const std::string& source, uint64_t seed) {
  if (absl::StartsWith(source, kRandom)) {
    ASSIGN_OR_RETURN(Shape shape, ParseShape(source.substr(sizeof(kRandom) - 1)));
    return SeededTensor(seed, Dtype::kF32, std::move(shape));
  }
  // A colon may be part of a file's own name.
  const size_t colon = FileExists(source) ? std::string::npos : source.rfind(':');
  const std::string path = source.substr(0, colon);
  const std::string name = colon == std::string::npos ? "" : source.substr(colon + 1);
  if (absl::EndsWith(path, ".safetensors")) {
    return PickTensor(path, name);
  }
  if (absl::EndsWith(path, ".npy")) {
    if (!name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": a .npy file holds one tensor without a name, found \":", name, "\""));
    }
    return ReadNpy(path);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", source, "\": expected FILE.npy, FILE.safetensors[:TENSOR] or random:SHAPE"));
}

bool FileExists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

absl::Status CheckTensorPath(const std::string& path) {
  if (absl::EndsWith(path, ".safetensors") || absl::EndsWith(path, ".npy")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", path, "\": expected FILE.safetensors or FILE.npy"));
}

absl::Status SaveTensors(const std::string& path, const Tensor& output, NamedValues others,
                         const SafetensorsMetadata& metadata) {
  RETURN_IF_ERROR(CheckTensorPath(path));
  if (absl::EndsWith(path, ".npy")) {
    return WriteNpy(path, output);
  }
  others.emplace("output", &output);
  return WriteSafetensors(path, others, metadata);
}

}  // namespace attention
