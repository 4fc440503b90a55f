#include "core/tensor/mapped_safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// Maps the whole file. An empty file cannot be mapped and gives no bytes.
absl::StatusOr<std::span<const std::byte>> Map(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return absl::ErrnoToStatus(errno, "cannot read " + path);
  }
  struct stat status{};
  absl::StatusOr<std::span<const std::byte>> result = std::span<const std::byte>();
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    result = absl::InvalidArgumentError(absl::StrCat(path, ": expected a regular file"));
  } else if (status.st_size > 0) {
    const auto size_bytes = static_cast<size_t>(status.st_size);
    void* data = mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
      result = absl::ErrnoToStatus(errno, "cannot map " + path);
    } else {
      madvise(data, size_bytes, MADV_SEQUENTIAL);
      result = std::span(static_cast<const std::byte*>(data), size_bytes);
    }
  }
  close(file);
  return result;
}

}  // namespace

MappedSafetensors::MappedSafetensors(std::string path, std::span<const std::byte> file)
    : path_(std::move(path)), file_(file) {}

MappedSafetensors::MappedSafetensors(MappedSafetensors&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, {})),
      data_(other.data_),
      entries_(std::move(other.entries_)) {}

MappedSafetensors::~MappedSafetensors() {
  if (!file_.empty()) {
    munmap(const_cast<std::byte*>(file_.data()), file_.size());
  }
}

absl::StatusOr<MappedSafetensors> MappedSafetensors::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const std::span<const std::byte> file, Map(path));
  MappedSafetensors mapped(path, file);
  RETURN_IF_ERROR(Prefixed(path, mapped.ReadHeader()));
  return mapped;
}

absl::Status MappedSafetensors::ReadHeader() {
  uint64_t header_bytes = 0;
  if (file_.size() >= kLengthBytes) {
    std::memcpy(&header_bytes, file_.data(), kLengthBytes);
  }
  RETURN_IF_ERROR(CheckHeaderBytes(header_bytes, file_.size()));
  data_ = file_.data() + kLengthBytes + header_bytes;
  const std::string header(reinterpret_cast<const char*>(file_.data() + kLengthBytes),
                           header_bytes);
  ASSIGN_OR_RETURN(entries_,
                   ParseSafetensorsHeader(header, file_.size() - kLengthBytes - header_bytes));
  return absl::OkStatus();
}

}  // namespace attention
