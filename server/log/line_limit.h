// A limit for log lines that callers can cause.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "core/runtime/mutex.h"

namespace attention {

/// Allows at most kMaxLines lines a second, so that a flood of lines does not fill the disk. Each
/// second of a flood ends with a line that gives the number of lines left out. Thread-safe. It has
/// a thread, which sleeps when there is no flood.
class LineLimit {
 public:
  static constexpr int64_t kMaxLines = 20;

  /// `subject` names what the lines are about: "failed requests".
  explicit LineLimit(std::string subject);
  /// Logs the remaining number of lines left out.
  ~LineLimit();
  LineLimit(const LineLimit&) = delete;
  LineLimit& operator=(const LineLimit&) = delete;

  /// Returns whether one more line may be written now. Does not block.
  bool Take();

 private:
  void Run();

  const std::string subject_;
  Mutex mutex_;
  CondVar changed_;
  int64_t second_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lines_ ABSL_GUARDED_BY(mutex_) = 0;  // lines of that second
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace attention
