// How much memory a piece of work takes.
#pragma once

#include <cstdint>

namespace attention {

/// Counts the bytes that operator new has given out to the whole program, while it lives. One at a
/// time.
class AllocationMeter {
 public:
  AllocationMeter();

  /// The most that was in use at once, beyond what was in use at the beginning.
  int64_t peak_bytes() const;

 private:
  const int64_t first_bytes_;
};

}  // namespace attention
