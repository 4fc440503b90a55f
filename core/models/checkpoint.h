// The tensors of a checkpoint, from one safetensors file or several.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/mapped_safetensors.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Floating point values in a mapped file.
struct StoredTensor {
  const void* data = nullptr;  // aligned for its dtype
  Dtype dtype = Dtype::kF32;
  Shape shape;
};

/// The tensors of a checkpoint, by name. Stored names may begin with the model's prefix; readers
/// leave the prefix out.
class Checkpoint {
 public:
  /// Maps `folder`/model.safetensors, or the files that `folder`/model.safetensors.index.json
  /// names. NOT_FOUND and INVALID_ARGUMENT name the file, the tensor, what was expected and found.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& folder);

  void set_prefix(const std::string& prefix) { prefix_ = prefix; }
  bool Has(const std::string& name) const { return Find(name) != nullptr; }
  /// Returns the shape of a tensor; empty when there is no such tensor.
  Shape ShapeOf(const std::string& name) const;
  /// Returns the tensor and marks it as used. INVALID_ARGUMENT names the file when there is no such
  /// tensor, when it is not a floating point tensor, or when its shape is not `shape`. An extent of
  /// -1 matches any extent.
  absl::StatusOr<StoredTensor> Take(const std::string& name, const Shape& shape);

  /// Returns the names of the tensors that were not taken, as stored, in order.
  std::vector<std::string> UnusedTensors() const;
  /// Returns the size of the tensors that were taken.
  int64_t used_bytes() const { return used_bytes_; }

 private:
  struct IndexedTensor {
    const MappedSafetensors* file = nullptr;
    const SafetensorsEntry* entry = nullptr;
    bool is_used = false;
  };

  absl::Status AddFile(const std::string& path, const std::vector<std::string>* wanted);
  absl::Status AddIndex(const std::string& folder, const std::string& path);
  const IndexedTensor* Find(const std::string& name) const;

  std::string folder_;
  std::string prefix_;
  std::vector<std::unique_ptr<MappedSafetensors>> files_;
  std::map<std::string, IndexedTensor> tensors_;  // by stored name
  std::vector<AlignedBuffer> copies_;             // of tensors that are misaligned, or F64
  int64_t used_bytes_ = 0;
};

}  // namespace attention
