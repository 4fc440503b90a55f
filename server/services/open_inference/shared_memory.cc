#include "server/services/open_inference/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

// The maximum number of regions. Each holds a file descriptor, which connections need too.
constexpr size_t kMaxRegions = 256;
constexpr size_t kMaxKeyBytes = 255;

std::string TextOf(int error) { return std::system_category().message(error); }

absl::Status CheckKey(const std::string& key) {
  const std::string name = key.substr(key.starts_with('/') ? 1 : 0);
  if (name.empty() || name.size() > kMaxKeyBytes || name == "." || name == ".." ||
      name.find('/') != std::string::npos || name.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key: expected the name of a shared-memory object, as /name, found \"", key, "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> OpenObject(const std::string& key) {
  const int file = shm_open(key.c_str(), O_RDWR, 0);
  if (file >= 0) {
    return file;
  }
  const int error = errno;
  const std::string text =
      absl::StrCat("key: expected a shared-memory object, found \"", key, "\": ", TextOf(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InvalidArgumentError(text);
  }
}

// Calls `transfer(done)` until all `count` bytes are transferred. Returns false when it ends early,
// with errno 0 at the object's end.
template <typename Transfer>
bool TransferAll(int64_t count, Transfer transfer) {
  int64_t done = 0;
  while (done < count) {
    errno = 0;
    const ssize_t step = transfer(done);
    if (step > 0) {
      done += step;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SharedRegion>> SharedRegion::Open(
    const SharedRegionSpec& spec) {
  RETURN_IF_ERROR(CheckKey(spec.key));
  if (spec.byte_size == 0) {
    return absl::InvalidArgumentError("byte_size: expected 1 or more, found 0");
  }
  const std::shared_ptr<SharedRegion> region(new SharedRegion(spec));
  ASSIGN_OR_RETURN(region->file_, OpenObject(spec.key));
  ASSIGN_OR_RETURN(const uint64_t size, region->ObjectSize());
  if (spec.offset > size || spec.byte_size > size - spec.offset) {
    return absl::InvalidArgumentError(absl::StrCat("byte_size: expected at most the ", size,
                                                   " bytes of \"", spec.key, "\", found ",
                                                   spec.byte_size, " from offset ", spec.offset));
  }
  return region;
}

SharedRegion::~SharedRegion() {
  if (file_ >= 0) {
    close(file_);
  }
}

absl::StatusOr<uint64_t> SharedRegion::ObjectSize() const {
  struct stat status;
  if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("key: expected a shared-memory object, found \"", spec_.key, "\""));
  }
  return static_cast<uint64_t>(status.st_size);
}

absl::Status SharedRegion::CheckRange(const RegionRange& range) const {
  const auto offset = static_cast<uint64_t>(range.offset);
  const auto byte_size = static_cast<uint64_t>(range.byte_size);
  if (offset > spec_.byte_size || byte_size > spec_.byte_size - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most the ", spec_.byte_size, " bytes of shared-memory region \"",
                     spec_.name, "\", found ", byte_size, " from offset ", offset));
  }
  return absl::OkStatus();
}

absl::Status SharedRegion::CheckLength(int64_t offset, int64_t count) const {
  ASSIGN_OR_RETURN(const uint64_t size, ObjectSize());
  const uint64_t end = spec_.offset + static_cast<uint64_t>(offset + count);
  if (end > size) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared-memory region \"", spec_.name, "\": expected an object of at least ",
                     end, " bytes, as when it was registered, found ", size));
  }
  return absl::OkStatus();
}

absl::Status SharedRegion::Read(int64_t offset, int64_t count, void* target) const {
  const auto transfer = [&](int64_t done) {
    return pread(file_, static_cast<std::byte*>(target) + done, static_cast<size_t>(count - done),
                 static_cast<off_t>(spec_.offset) + offset + done);
  };
  RETURN_IF_ERROR(CheckLength(offset, count));
  if (!TransferAll(count, transfer)) {
    const std::string found = errno == 0 ? "an object that became shorter" : TextOf(errno);
    return absl::InvalidArgumentError(absl::StrCat(
        "shared-memory region \"", spec_.name, "\": expected ", count, " bytes, found ", found));
  }
  return absl::OkStatus();
}

// A write beyond the object's end would make it grow again.
absl::Status SharedRegion::Write(int64_t offset, int64_t count, const void* source) const {
  const auto transfer = [&](int64_t done) {
    return pwrite(file_, static_cast<const std::byte*>(source) + done,
                  static_cast<size_t>(count - done),
                  static_cast<off_t>(spec_.offset) + offset + done);
  };
  RETURN_IF_ERROR(CheckLength(offset, count));
  if (!TransferAll(count, transfer)) {
    return absl::ResourceExhaustedError(absl::StrCat("shared-memory region \"", spec_.name,
                                                     "\": cannot write ", count,
                                                     " bytes: ", TextOf(errno)));
  }
  return absl::OkStatus();
}

absl::Status SharedMemory::Register(const SharedRegionSpec& spec) {
  if (spec.name.empty()) {
    return absl::InvalidArgumentError("name: expected a name for the region, found none");
  }
  // A name in use is reported before other errors.
  MutexLock lock(mutex_);
  if (regions_.contains(spec.name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("name: shared-memory region \"", spec.name, "\" is registered already"));
  }
  if (regions_.size() >= kMaxRegions) {
    return absl::ResourceExhaustedError(absl::StrCat("name: expected at most ", kMaxRegions,
                                                     " shared-memory regions, found one more"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const SharedRegion> region, SharedRegion::Open(spec));
  regions_.emplace(spec.name, std::move(region));
  return absl::OkStatus();
}

void SharedMemory::Unregister(const std::string& name) {
  MutexLock lock(mutex_);
  if (name.empty()) {
    regions_.clear();
  } else {
    regions_.erase(name);
  }
}

absl::StatusOr<std::vector<SharedRegionSpec>> SharedMemory::List(const std::string& name) const {
  MutexLock lock(mutex_);
  if (!name.empty() && !regions_.contains(name)) {
    return NoRegion(name);
  }
  std::vector<SharedRegionSpec> specs;
  for (const auto& [key, region] : regions_) {
    if (name.empty() || key == name) {
      specs.push_back(region->spec());
    }
  }
  return specs;
}

absl::StatusOr<std::shared_ptr<const SharedRegion>> SharedMemory::Find(
    const RegionRange& range) const {
  MutexLock lock(mutex_);
  const auto found = regions_.find(range.region);
  if (found == regions_.end()) {
    return NoRegion(range.region);
  }
  RETURN_IF_ERROR(found->second->CheckRange(range));
  return found->second;
}

absl::Status SharedMemory::NoRegion(const std::string& name) const {
  const auto names = absl::StrJoin(regions_, ", ", [](std::string* out, const auto& item) {
    absl::StrAppend(out, "\"", item.first, "\"");
  });
  return absl::NotFoundError(absl::StrCat("expected a registered shared-memory region (",
                                          names.empty() ? "there is none" : names, "), found \"",
                                          name, "\""));
}

absl::Status CheckSharedMemory(const SharedMemory* memory, const Caller& caller) {
  if (memory == nullptr) {
    return absl::UnimplementedError(
        "shared memory is off: the server was started without --allow-shared-memory");
  }
  // Region names are no secret, and a region may hold data of another caller.
  return caller.has_admin_right
             ? absl::OkStatus()
             : absl::PermissionDeniedError(
                   "shared memory: expected a caller with the admin right, found one without");
}

}  // namespace attention
