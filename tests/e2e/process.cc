#include "tests/e2e/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>

namespace attention {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    std::abort();
  }
  return {ends[0], ends[1]};
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments) {
  const Pipe out = MakePipe(), err = MakePipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) {
    std::cerr << arguments[0] << ": cannot be started" << std::endl;
    std::abort();
  }
  posix_spawn_file_actions_destroy(&actions);
  close(out.write_end);
  close(err.write_end);
  out_.fd = out.read_end;
  err_.fd = err.read_end;
  exit_fd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
}

Process::~Process() {
  if (!exit_code_.has_value()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_.fd, err_.fd, exit_fd_}) {
    if (fd >= 0) {
      close(fd);
    }
  }
}

void Process::Signal(int signal) const { kill(pid_, signal); }

bool Process::ReadSome(Clock::time_point deadline) {
  std::vector<pollfd> polled;
  for (const int fd : {out_.fd, err_.fd}) {
    if (fd >= 0) {
      polled.push_back({fd, POLLIN, 0});
    }
  }
  if (polled.empty()) {
    polled.push_back({exit_fd_, POLLIN, 0});
  }
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  if (left <= 0 || poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) {
    return false;
  }
  for (Stream* const stream : {&out_, &err_}) {
    const bool is_ready = std::any_of(polled.begin(), polled.end(), [stream](const pollfd& entry) {
      return entry.fd == stream->fd && entry.revents != 0;
    });
    if (is_ready) {
      std::array<char, 4096> bytes;
      const ssize_t count = read(stream->fd, bytes.data(), bytes.size());
      if (count > 0) {
        stream->text.append(bytes.data(), static_cast<size_t>(count));
      } else {
        close(stream->fd);
        stream->fd = -1;
      }
    }
  }
  return true;
}

bool Process::WaitFor(const Stream& stream, const std::string& text, size_t after,
                      std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (stream.text.find(text, after) == std::string::npos) {
    if (stream.fd < 0 || !ReadSome(deadline)) {
      return false;
    }
  }
  return true;
}

bool Process::WaitForStdout(const std::string& text, std::chrono::milliseconds timeout,
                            size_t after) {
  return WaitFor(out_, text, after, timeout);
}

bool Process::WaitForStderr(const std::string& text, std::chrono::milliseconds timeout) {
  return WaitFor(err_, text, 0, timeout);
}

std::optional<int> Process::WaitForExit(std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (!exit_code_.has_value()) {
    const bool is_drained = out_.fd < 0 && err_.fd < 0;
    if (!ReadSome(deadline)) {
      return std::nullopt;
    }
    int status = 0;
    if (is_drained && waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
  }
  return exit_code_;
}

}  // namespace attention
