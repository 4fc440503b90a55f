// NUMA nodes for tests: the options of the process while an object lives, and fake system calls.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/runtime/mutex.h"
#include "core/runtime/numa.h"

namespace attention {

/// The process uses these nodes while an object lives. No pool may outlive it.
class ScopedNuma {
 public:
  explicit ScopedNuma(const NumaOptions& options) { UseNuma(options); }
  ~ScopedNuma() { UseNuma({}); }
  ScopedNuma(const ScopedNuma&) = delete;
  ScopedNuma& operator=(const ScopedNuma&) = delete;
};

/// Nodes that need not exist, since system calls are only recorded.
class FakeNuma {
 public:
  struct Bind {
    void* data;
    size_t size_bytes;
    std::vector<int> node_ids;
  };

  /// `bind_error` is what every call to place memory returns.
  explicit FakeNuma(std::vector<NumaNode> nodes, bool copies_weights = false, int bind_error = 0)
      : scope_({.nodes = std::move(nodes),
                .copies_weights = copies_weights,
                .calls = {.bind_memory =
                              [this, bind_error](void* data, size_t size_bytes,
                                                 const std::vector<int>& node_ids) {
                                MutexLock lock(mutex_);
                                binds_.push_back({data, size_bytes, node_ids});
                                return bind_error;
                              },
                          .pin_thread =
                              [this](const std::vector<int>& cpus) {
                                MutexLock lock(mutex_);
                                pins_.push_back(cpus);
                                return 0;
                              }}}) {}

  std::vector<Bind> binds() const {
    MutexLock lock(mutex_);
    return binds_;
  }
  std::vector<std::vector<int>> pins() const {
    MutexLock lock(mutex_);
    return pins_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<Bind> binds_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<int>> pins_ ABSL_GUARDED_BY(mutex_);
  const ScopedNuma scope_;  // the last member, since its calls use all others
};

}  // namespace attention
