// A safetensors file in memory as the system maps it: nothing is read before it is looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/safetensors_header.h"

namespace attention {

/// Movable. The file must not be shortened while this lives: replace it by renaming another one
/// onto it.
class MappedSafetensors {
 public:
  /// Errors as ReadSafetensors.
  static absl::StatusOr<MappedSafetensors> Open(const std::string& path);
  MappedSafetensors(MappedSafetensors&& other) noexcept;
  MappedSafetensors& operator=(MappedSafetensors&&) = delete;
  ~MappedSafetensors();

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// The bytes of an entry, of whatever alignment.
  const std::byte* DataOf(const SafetensorsEntry& entry) const { return data_ + entry.begin; }

 private:
  MappedSafetensors(std::string path, std::span<const std::byte> file);
  absl::Status ReadHeader();

  std::string path_;
  std::span<const std::byte> file_;
  const std::byte* data_ = nullptr;  // behind the header
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace attention
