// A program under test, with its output.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace attention {

/// One thread. Every wait is bounded; the destructor kills what still runs.
class Process {
 public:
  /// Starts `arguments[0]`. Ends the test program when that is impossible.
  explicit Process(const std::vector<std::string>& arguments);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int signal) const;

  /// Waits until stdout (or stderr) contains `text`; false when the program closed it first, or at
  /// the timeout. Of stdout, `after` so many bytes.
  bool WaitForStdout(const std::string& text, std::chrono::milliseconds timeout, size_t after = 0);
  bool WaitForStderr(const std::string& text, std::chrono::milliseconds timeout);

  /// The exit code, or 128 + the signal that ended it; empty at the timeout.
  std::optional<int> WaitForExit(std::chrono::milliseconds timeout);

  /// What was written so far, as far as a wait has read it; all of it after WaitForExit.
  const std::string& out() const { return out_.text; }
  const std::string& err() const { return err_.text; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream {
    int fd = -1;  // -1: closed
    std::string text;
  };

  /// Waits for something to read; false at the deadline, or when there is nothing left to wait for.
  bool ReadSome(Clock::time_point deadline);
  bool WaitFor(const Stream& stream, const std::string& text, size_t after,
               std::chrono::milliseconds timeout);

  pid_t pid_ = -1;
  int exit_fd_ = -1;  // readable when the program has ended
  Stream out_;
  Stream err_;
  std::optional<int> exit_code_;
};

}  // namespace attention
