#include "client/cli/server_flags.h"

#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"

namespace attention {

void AddServerFlags(CLI::App& command, ServerFlags& flags) {
  command.add_option("--server", flags.server, "host:port or unix:/path")
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->check([](const std::string& text) {
        return text.empty() ? "expected host:port or unix:/path" : "";
      })
      ->group("Server");
  AddDuration(command, "--timeout", flags.timeout, "Give up on a request after this long")
      ->check([](const std::string& text) {
        return *ParseDuration(text) > absl::ZeroDuration() ? "" : "expected more than 0 seconds";
      })
      ->group("Server");
}

CLI::Option* AddDuration(CLI::App& command, const std::string& name, std::string& text,
                         const std::string& help) {
  return command.add_option(name, text, help)
      ->capture_default_str()
      ->type_name("DURATION")
      ->check([](const std::string& value) {
        const absl::StatusOr<absl::Duration> parsed = ParseDuration(value);
        return parsed.ok() ? std::string() : std::string(parsed.status().message());
      });
}

absl::StatusOr<absl::Duration> ParseDuration(const std::string& text) {
  absl::Duration duration;
  double seconds = 0.0;
  if (absl::SimpleAtod(text, &seconds)) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": expected a duration such as 10s, 500ms or 1m30s"));
  }
  if (duration < absl::ZeroDuration() || duration > absl::Hours(24 * 365)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected 0 seconds to a year"));
  }
  return duration;
}

absl::StatusOr<std::unique_ptr<AttentionClient>> ConnectTo(const ServerFlags& flags) {
  return AttentionClient::Connect(
      {.server = flags.server, .timeout = *ParseDuration(flags.timeout)});
}

int Fail(const absl::Status& status) {
  std::cerr << "attend: " << absl::StatusCodeToString(status.code()) << ": " << status.message()
            << "\n";
  return kExitFailed;
}

void RequireUsage(const absl::Status& status) {
  if (!status.ok()) {
    throw CLI::ValidationError(std::string(status.message()));
  }
}

}  // namespace attention
