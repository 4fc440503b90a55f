#include "server/library_log.h"

#if __has_include(<google/protobuf/stubs/logging.h>)
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#else  // protobuf since 22 and gRPC since 1.66 log through Abseil
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_entry.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#include "absl/strings/match.h"
#endif

#include <string>

#include "absl/strings/str_cat.h"
#include "server/log/line_limit.h"
#include "server/log/log.h"

namespace attention {
namespace {

// gRPC quotes texts of clients, which may be of any length.
constexpr size_t kMaxGrpcText = 300;

void LogForGrpc(bool is_error, const std::string& text, const std::string& file, int line) {
  const LogLevel level = is_error ? LogLevel::kError : LogLevel::kDebug;
  if (level < CurrentLogLevel()) {
    return;
  }
  // Never destroyed: gRPC logs until the process ends.
  static LineLimit& errors = *new LineLimit("gRPC's errors");
  static LineLimit& others = *new LineLimit("messages of gRPC");
  if ((is_error ? errors : others).Take()) {
    Log({.level = level,
         .text = absl::StrCat("grpc: ", text.substr(0, kMaxGrpcText)),
         .fields = {{"file", file}, {"line", int64_t{line}}}});
  }
}

#if !__has_include(<google/protobuf/stubs/logging.h>)
class GrpcSink final : public absl::LogSink {
  void Send(const absl::LogEntry& entry) override {
    if (!absl::StrContains(entry.source_filename(), "google/protobuf/")) {
      LogForGrpc(entry.log_severity() >= absl::LogSeverity::kError,
                 std::string(entry.text_message()), std::string(entry.source_filename()),
                 entry.source_line());
    }
  }
};
#endif

}  // namespace

void TakeOverLibraryLogs() {
#if __has_include(<google/protobuf/stubs/logging.h>)
  gpr_set_log_function([](gpr_log_func_args* event) {
    LogForGrpc(event->severity == GPR_LOG_SEVERITY_ERROR, event->message, event->file, event->line);
  });
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
  google::protobuf::SetLogHandler(nullptr);
#else
  constexpr int kGrpcDebug = 2;  // the level of gRPC's messages for debugging
  absl::InitializeLog();
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kFatal);
  absl::SetGlobalVLogLevel(kGrpcDebug);
  absl::AddLogSink(new GrpcSink());  // never destroyed, as above
#endif
}

}  // namespace attention
