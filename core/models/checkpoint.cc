#include "core/models/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/models/model_folder.h"
#include "core/runtime/json_object.h"
#include "core/runtime/json_text.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using nlohmann::json;

constexpr char kWholeFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = size_t{64} << 20;
constexpr size_t kMaxShards = 4096;

bool Fits(const Shape& shape, const Shape& wanted) {
  return std::equal(
      shape.begin(), shape.end(), wanted.begin(), wanted.end(),
      [](int64_t found, int64_t expected) { return expected < 0 || found == expected; });
}

/// Returns the dtype in which a tensor is read: F64 is rounded.
absl::StatusOr<Dtype> FloatDtype(const StoredDtypeInfo& stored) {
  switch (stored.dtype) {
    case StoredDtype::kF32:
    case StoredDtype::kF64:
      return Dtype::kF32;
    case StoredDtype::kBf16:
      return Dtype::kBf16;
    case StoredDtype::kF16:
      return Dtype::kF16;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("expected dtype F32, BF16, F16 or F64, found ", stored.name));
  }
}

/// Rounds doubles, which may lie at any address.
AlignedBuffer RoundToF32(const std::byte* doubles, size_t count) {
  AlignedBuffer rounded(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    double value;
    std::memcpy(&value, doubles + i * sizeof(double), sizeof(double));
    reinterpret_cast<float*>(rounded.data())[i] = static_cast<float>(value);
  }
  return rounded;
}

/// Returns the names of the tensors by file, as the index lists them.
absl::StatusOr<std::map<std::string, std::vector<std::string>>> ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxIndexBytes));
  ASSIGN_OR_RETURN(const json index, ParseJsonObject(text, path));
  ASSIGN_OR_RETURN(const auto shards, JsonObject::OfFile(index, path).StringsByName("weight_map"));
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [tensor, shard] : shards) {
    files[shard].push_back(tensor);
    if (files.size() > kMaxShards) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected at most ", kMaxShards, " files, found more"));
    }
  }
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& folder) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->folder_ = folder;
  const auto exists = [&](const char* name) {
    std::error_code ignored;
    return std::filesystem::exists(std::filesystem::path(folder) / name, ignored);
  };
  if (exists(kWholeFile)) {
    ASSIGN_OR_RETURN(const std::string path, ResolveInside(folder, kWholeFile));
    RETURN_IF_ERROR(checkpoint->AddFile(path, nullptr));
  } else if (exists(kIndexFile)) {
    ASSIGN_OR_RETURN(const std::string path, ResolveInside(folder, kIndexFile));
    RETURN_IF_ERROR(checkpoint->AddIndex(folder, path));
  } else {
    return absl::NotFoundError(
        absl::StrCat(folder, ": expected ", kWholeFile, " or ", kIndexFile, ", found neither"));
  }
  return checkpoint;
}

absl::Status Checkpoint::AddFile(const std::string& path, const std::vector<std::string>* wanted) {
  ASSIGN_OR_RETURN(MappedSafetensors mapped, MappedSafetensors::Open(path));
  files_.push_back(std::make_unique<MappedSafetensors>(std::move(mapped)));
  const MappedSafetensors& file = *files_.back();
  size_t num_wanted = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (wanted == nullptr || std::binary_search(wanted->begin(), wanted->end(), entry.name)) {
      tensors_[entry.name] = {&file, &entry};
      ++num_wanted;
    }
  }
  if (wanted != nullptr && num_wanted != wanted->size()) {
    const auto missing = std::find_if(wanted->begin(), wanted->end(),
                                      [&](const auto& name) { return tensors_.count(name) == 0; });
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": tensor \"", *missing, "\": expected as the index says, found none"));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::AddIndex(const std::string& folder, const std::string& path) {
  ASSIGN_OR_RETURN(const auto files, ReadIndex(path));
  // By canonical path, so that a file with several names is read once.
  std::map<std::string, std::vector<std::string>> tensors_by_path;
  for (const auto& [shard, tensors] : files) {
    const absl::StatusOr<std::string> shard_path = ResolveInside(folder, shard);
    if (!shard_path.ok()) {
      return Prefixed(path, shard_path.status());
    }
    std::vector<std::string>& all = tensors_by_path[*shard_path];
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  for (auto& [shard_path, tensors] : tensors_by_path) {
    std::sort(tensors.begin(), tensors.end());
    RETURN_IF_ERROR(AddFile(shard_path, &tensors));
  }
  return absl::OkStatus();
}

const Checkpoint::IndexedTensor* Checkpoint::Find(const std::string& name) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    found = tensors_.find(prefix_ + name);
  }
  return found == tensors_.end() ? nullptr : &found->second;
}

Shape Checkpoint::ShapeOf(const std::string& name) const {
  const IndexedTensor* tensor = Find(name);
  return tensor == nullptr ? Shape() : tensor->entry->shape;
}

absl::StatusOr<StoredTensor> Checkpoint::Take(const std::string& name, const Shape& shape) {
  IndexedTensor* tensor = const_cast<IndexedTensor*>(Find(name));
  if (tensor == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(files_.size() == 1 ? files_.front()->path() : folder_, ": tensor \"", name,
                     "\": expected shape ", ShapeText(shape), ", found none of that name"));
  }
  const SafetensorsEntry& entry = *tensor->entry;
  const auto error = [&](const std::string& text) {
    return absl::InvalidArgumentError(
        absl::StrCat(tensor->file->path(), ": tensor \"", entry.name, "\": ", text));
  };
  const absl::StatusOr<Dtype> dtype = FloatDtype(entry.dtype);
  if (!dtype.ok()) {
    return error(std::string(dtype.status().message()));
  }
  if (!Fits(entry.shape, shape)) {
    return error(
        absl::StrCat("expected shape ", ShapeText(shape), ", found ", ShapeText(entry.shape)));
  }
  const size_t size_bytes = entry.end - entry.begin;
  if (!tensor->is_used) {
    tensor->is_used = true;
    used_bytes_ += static_cast<int64_t>(size_bytes);
  }
  const std::byte* data = tensor->file->DataOf(entry);
  if (entry.dtype.dtype == StoredDtype::kF64) {
    data = copies_.emplace_back(RoundToF32(data, size_bytes / sizeof(double))).data();
  } else if (reinterpret_cast<uintptr_t>(data) % SizeOf(*dtype) != 0) {
    AlignedBuffer& copy = copies_.emplace_back(size_bytes);
    std::memcpy(copy.data(), data, size_bytes);
    data = copy.data();
  }
  return StoredTensor{data, *dtype, entry.shape};
}

std::vector<std::string> Checkpoint::UnusedTensors() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (!tensor.is_used) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace attention
