#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/plot/svg_picture.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kProgram[] = "rsvg-convert";

/// A file in memory that holds `text`, to read from its start; the caller closes it.
absl::StatusOr<int> MemoryFile(const std::string& text) {
  const int file = memfd_create("attend-picture", MFD_CLOEXEC);
  if (file < 0) {
    return absl::ErrnoToStatus(errno, "memfd_create");
  }
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(file, text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR) {
      const absl::Status status = absl::ErrnoToStatus(errno, "write to memory");
      close(file);
      return status;
    }
    written += count > 0 ? static_cast<size_t>(count) : 0;
  }
  lseek(file, 0, SEEK_SET);
  return file;
}

absl::StatusOr<pid_t> Start(const std::vector<std::string>& arguments, int input) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  pid_t child = -1;
  const int error = posix_spawnp(&child, kProgram, &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    return absl::FailedPreconditionError(
        absl::StrCat("a PNG is drawn by ", kProgram,
                     ", which is not installed: apt install librsvg2-bin, or write FILE.svg"));
  }
  if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", kProgram));
  }
  return child;
}

}  // namespace

absl::Status WritePng(const std::string& svg, double zoom, const std::string& path) {
  ASSIGN_OR_RETURN(const int input, MemoryFile(svg));
  const absl::Cleanup close_input = [input] { close(input); };
  std::vector<std::string> arguments = {kProgram, "--format=png", absl::StrCat("--zoom=", zoom),
                                        "--unlimited"};
  if (path != "-") {
    arguments.push_back(absl::StrCat("--output=", path));
  }
  ASSIGN_OR_RETURN(const pid_t child, Start(arguments, input));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::InternalError(absl::StrCat(path, ": ", kProgram, " failed, and says why above"));
  }
  return absl::OkStatus();
}

}  // namespace attention
