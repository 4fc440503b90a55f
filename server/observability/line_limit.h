// Lines of the log that others can cause.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "core/runtime/mutex.h"

namespace attention {

/// Lets so many lines a second pass that a flood of them does not fill the disk, and says each
/// second of a flood, in one line, how many it kept back. Thread-safe; has a thread, which sleeps
/// when there is no flood.
class LineLimit {
 public:
  static constexpr int64_t kMaxLines = 20;

  /// `subject` is what the lines are about.
  explicit LineLimit(std::string subject);
  /// Says what is still to be said.
  ~LineLimit();
  LineLimit(const LineLimit&) = delete;
  LineLimit& operator=(const LineLimit&) = delete;

  /// Whether one more line may be written now. Does not block.
  bool Take();

 private:
  void Run();

  const std::string subject_;
  Mutex mutex_;
  CondVar changed_;
  int64_t second_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lines_ ABSL_GUARDED_BY(mutex_) = 0;  // within that second
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace attention
