// attend-server: parses the flags, and serves or does what they ask instead.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/command_line.h"
#include "server/log/log.h"
#include "server/memory_need.h"
#include "server/process.h"
#include "server/serve.h"
#include "server/server.h"

namespace attention {
namespace {

int Fail(const std::string& text) {
  std::fprintf(stderr, "attend-server: %s\n", text.c_str());
  return EXIT_FAILURE;
}

int Print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0
             ? Fail("standard output cannot be written")
             : EXIT_SUCCESS;
}

int Check(const ServerOptions& options) {
  WarnOfMemory(options);
  absl::Status status = CheckThreads(options.threads);
  if (status.ok()) {  // with too few threads a start might never end
    status = Server::Check(options);
  }
  return status.ok() ? Print("attend-server: a server would start\n")
                     : Fail(std::string(status.message()));
}

}  // namespace
}  // namespace attention

int main(int argc, char** argv) try {
  attention::OpenStandardFiles();
  // Debian's Abseil looks for lock cycles at every lock, under one lock of the process (2 to 4 % of
  // the time of small requests), and aborts when it finds one, also in gRPC. The tests keep that.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const absl::StatusOr<attention::ParsedCommandLine> parsed = attention::ParseCommandLine(
      std::vector<std::string>(argv + 1, argv + argc), attention::OwnEnvironment());
  if (!parsed.ok()) {
    return attention::Fail(std::string(parsed.status().message()));
  }
  attention::SetLogFormat(parsed->options.log_format);
  attention::SetLogLevel(parsed->options.log_level);
  for (const std::string& warning : parsed->warnings) {
    attention::Log(attention::LogLevel::kWarning, warning);
  }
  if (!parsed->text.empty()) {
    return attention::Print(parsed->text);
  }
  return parsed->is_check ? attention::Check(parsed->options) : attention::Serve(parsed->options);
} catch (const std::exception& error) {
  // No memory, or no thread: the limits of the process are too small.
  std::fprintf(stderr, "attend-server: the server cannot start: %s\n", error.what());
  attention::FlushLog();
  _exit(EXIT_FAILURE);
}
