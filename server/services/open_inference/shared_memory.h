// System shared memory that clients put tensors into, and take them out of.
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
  /// What shm_open knows the object by.
  std::string key;
  /// Bytes, within the object.
  uint64_t offset = 0;
  uint64_t byte_size = 0;
};

/// A part of an object that a client has made and can change at any time. It is read and written by
/// copies, never mapped: an object that its client makes shorter would end the process with SIGBUS.
/// Immutable; thread-safe.
class SharedRegion {
 public:
  /// Opens the object. NOT_FOUND when there is none; PERMISSION_DENIED; INVALID_ARGUMENT for a key
  /// that is no plain name, or a region that is empty or goes past the object's end.
  static absl::StatusOr<std::shared_ptr<const SharedRegion>> Open(const SharedRegionSpec& spec);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  const SharedRegionSpec& spec() const { return spec_; }

  /// INVALID_ARGUMENT when the range goes past the region's end.
  absl::Status CheckRange(const RegionRange& range) const;
  /// INVALID_ARGUMENT when the object has become too short; RESOURCE_EXHAUSTED when the system has
  /// no memory to write to. REQUIRES: offset + count is within the region.
  absl::Status Read(int64_t offset, int64_t count, void* target) const;
  absl::Status Write(int64_t offset, int64_t count, const void* source) const;

 private:
  SharedRegion(const SharedRegionSpec& spec, int file) : spec_(spec), file_(file) {}
  absl::StatusOr<uint64_t> ObjectSize() const;
  absl::Status CheckLength(int64_t offset, int64_t count) const;

  const SharedRegionSpec spec_;
  const int file_;
};

/// The regions, by name. Thread-safe.
class SharedMemory {
 public:
  /// ALREADY_EXISTS for a name that is taken; RESOURCE_EXHAUSTED for too many regions;
  /// SharedRegion's errors.
  absl::Status Register(const SharedRegionSpec& spec);
  /// All with an empty name. One that is not there is no error, as clients clean up at their start.
  /// Requests that began with a region finish with it.
  void Unregister(const std::string& name);
  /// All with an empty name. NOT_FOUND.
  absl::StatusOr<std::vector<SharedRegionSpec>> List(const std::string& name) const;

  /// The region that `range` lies in. NOT_FOUND; SharedRegion::CheckRange's error.
  absl::StatusOr<std::shared_ptr<const SharedRegion>> Find(const RegionRange& range) const;

 private:
  absl::Status NoRegion(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const SharedRegion>> regions_ ABSL_GUARDED_BY(mutex_);
};

/// UNIMPLEMENTED where it is off, which null says; PERMISSION_DENIED for callers without the admin
/// right.
absl::Status CheckSharedMemory(const SharedMemory* memory, const Caller& caller);

}  // namespace attention
