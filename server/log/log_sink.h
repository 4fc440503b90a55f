// A queue of log lines, which a thread writes to standard error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "core/runtime/mutex.h"

namespace attention {

/// Writes lines in their order on a thread of its own, so that no other thread waits for the
/// reader. Lines that would exceed `max_bytes` are left out and counted; when the reader continues,
/// a line gives their number. Thread-safe.
class LogSink {
 public:
  /// `left_out` makes the line that gives the number of lines left out.
  LogSink(int fd, size_t max_bytes, std::function<std::string(int64_t)> left_out);
  /// Drops the lines that are not written by now.
  ~LogSink();
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;

  /// Queues `line`, which includes its line break. Does not block.
  void Put(const std::string& line);

  /// Waits until all lines are written. Returns false after `patience`.
  bool Flush(std::chrono::nanoseconds patience);

  size_t waiting_bytes() const;
  int64_t lines_left_out() const;

 private:
  void Run();
  /// Waits for lines, and takes a part of them. Returns an empty text at the end.
  std::string TakePiece();
  /// Queues the line about lines left out, unless there is no memory for it.
  void ReportLeftOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns false when the sink ends first.
  bool Write(const std::string& piece);

  const int fd_;
  const size_t max_bytes_;
  const std::function<std::string(int64_t)> left_out_line_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::string waiting_ ABSL_GUARDED_BY(mutex_);
  size_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  /// The part of left_out_ that no line has reported yet.
  int64_t unreported_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  /// Whether an error has ended the last write in the middle of a line, which is to be ended first.
  /// Of the thread alone.
  bool is_mid_line_ = false;
  std::thread thread_;
};

}  // namespace attention
