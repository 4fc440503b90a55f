// A safetensors file that is mapped into memory. The system reads data from disk only when it is
// accessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/safetensors_header.h"

namespace attention {

/// A mapped file. Movable. The file must not be shortened while this object lives. To replace the
/// file, rename another one onto it.
class MappedSafetensors {
 public:
  /// Maps the file and checks its header. The errors are those of ReadSafetensors.
  static absl::StatusOr<MappedSafetensors> Open(const std::string& path);
  MappedSafetensors(MappedSafetensors&& other) noexcept;
  MappedSafetensors& operator=(MappedSafetensors&&) = delete;
  ~MappedSafetensors();

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Returns the bytes of an entry, with no particular alignment.
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
