// System shared memory for tensors, which clients write and read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/runtime/mutex.h"
#include "server/security/caller.h"
#include "server/services/open_inference/infer_parameters.h"

namespace attention {

struct SharedRegionSpec {
  std::string name;
  /// The name of the object for shm_open.
  std::string key;
  /// The range of bytes within the object.
  uint64_t offset = 0;
  uint64_t byte_size = 0;
};

/// A part of an object that a client has made and can change at any time. It is read and written by
/// copies, never mapped: if the client made a mapped object shorter, SIGBUS would end the process.
/// Immutable; thread-safe.
class SharedRegion {
 public:
  /// Opens the object. NOT_FOUND when it does not exist; PERMISSION_DENIED; INVALID_ARGUMENT for a
  /// key that is no plain name, or a region that is empty or exceeds the object.
  static absl::StatusOr<std::shared_ptr<const SharedRegion>> Open(const SharedRegionSpec& spec);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  const SharedRegionSpec& spec() const { return spec_; }

  /// Checks a range. INVALID_ARGUMENT when it exceeds the region.
  absl::Status CheckRange(const RegionRange& range) const;
  /// Copy bytes. INVALID_ARGUMENT when the object has become too short; RESOURCE_EXHAUSTED when the
  /// system has no memory to write to. REQUIRES: offset + count is within the region.
  absl::Status Read(int64_t offset, int64_t count, void* target) const;
  absl::Status Write(int64_t offset, int64_t count, const void* source) const;

 private:
  explicit SharedRegion(const SharedRegionSpec& spec) : spec_(spec) {}
  absl::StatusOr<uint64_t> ObjectSize() const;
  absl::Status CheckLength(int64_t offset, int64_t count) const;

  const SharedRegionSpec spec_;
  int file_ = -1;
};

/// The regions, by name. Thread-safe.
class SharedMemory {
 public:
  /// Registers a region. ALREADY_EXISTS for a name in use; RESOURCE_EXHAUSTED for too many regions;
  /// SharedRegion's errors.
  absl::Status Register(const SharedRegionSpec& spec);
  /// Removes a region, or all with an empty name. An unknown name is no error, as clients clean up
  /// at their start. Requests that use a region finish with it.
  void Unregister(const std::string& name);
  /// Returns a region, or all with an empty name. NOT_FOUND for an unknown name.
  absl::StatusOr<std::vector<SharedRegionSpec>> List(const std::string& name) const;

  /// Returns the region of `range`. NOT_FOUND; the errors of SharedRegion::CheckRange.
  absl::StatusOr<std::shared_ptr<const SharedRegion>> Find(const RegionRange& range) const;

 private:
  absl::Status NoRegion(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const SharedRegion>> regions_ ABSL_GUARDED_BY(mutex_);
};

/// Returns UNIMPLEMENTED when shared memory is disabled, which null means; PERMISSION_DENIED for
/// callers without the admin right.
absl::Status CheckSharedMemory(const SharedMemory* memory, const Caller& caller);

}  // namespace attention
