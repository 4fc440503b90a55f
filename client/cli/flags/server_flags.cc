#include "client/cli/flags/server_flags.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/files/output_file.h"
#include "client/cli/flags/help_group.h"
#include "core/runtime/flag_text.h"
#include "core/runtime/text_file.h"

namespace attention {
namespace {

TlsOptions& TlsOf(ClientOptions& flags) {
  if (!flags.connection.tls.has_value()) {
    flags.connection.tls.emplace();
  }
  return *flags.connection.tls;
}

void AddTlsFlags(HelpGroup& group, ClientOptions& flags) {
  group.OnSwitch("--tls", [&flags] { TlsOf(flags); }, "Use TLS; implied by the flags below");
  const auto add = [&](const char* name, std::string TlsOptions::* member, const char* type,
                       const char* help) {
    return group.Setter<std::string>(
        name, [&flags, member](const std::string& text) { TlsOf(flags).*member = text; }, type,
        help);
  };
  const auto is_file = CLI::ExistingFile.description("");
  add("--ca", &TlsOptions::ca_file, "FILE",
      "PEM certificates of trusted authorities, instead of the system's")
      ->check(is_file);
  CLI::Option* const certificate = add("--certificate", &TlsOptions::certificate_file, "FILE",
                                       "PEM certificate of this client (mTLS)");
  CLI::Option* const key =
      add("--certificate-key", &TlsOptions::key_file, "FILE", "PEM key of that certificate");
  certificate->check(is_file)->needs(key);
  key->check(is_file)->needs(certificate);
  add("--server-name", &TlsOptions::server_name, "NAME",
      "The name in the server's certificate, if not that of the address");
}

/// Reads a token, without white space around it.
std::string ReadToken(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path, /*max_bytes=*/1 << 20);
  if (!text.ok()) {
    throw CLI::ValidationError("--token-file", std::string(text.status().message()));
  }
  const std::string token(absl::StripAsciiWhitespace(*text));
  if (token.empty()) {
    throw CLI::ValidationError("--token-file", path + ": expected a token, found none");
  }
  return token;
}

void AddMetadataFlags(HelpGroup& group, ClientOptions& flags) {
  group.Setter<std::string>(
      "--token-file",
      [&flags](const std::string& path) { flags.connection.token = ReadToken(path); }, "FILE",
      "Send the bearer token in this file");
  group.Pairs(
      "-m,--metadata",
      [&flags](const std::string& key, const std::string& value) {
        flags.connection.metadata.emplace_back(absl::AsciiStrToLower(key), value);
      },
      "Send this metadata with every request, such as attend-priority=high|normal|low, "
      "attend-tenant=NAME or x-request-id=ID; may be repeated");
}

}  // namespace

void AddServerFlags(CLI::App& command, ClientOptions& flags) {
  HelpGroup group(command, "Server");
  group
      .Default("--server", flags.connection.server, "ADDRESS",
               "host:port or unix:/path; several, separated by commas, and all hosts of "
               "dns:///name:port are used in turn")
      ->check([](const std::string& text) {
        return text.empty() ? "expected host:port or unix:/path, found \"\"" : "";
      });
  group
      .Parsed("-t,--timeout", ParseDuration, Into(flags.timeout), "DURATION",
              "Give up on a request after this long")
      ->check(IsPositiveDuration)
      ->default_str(absl::FormatDuration(flags.timeout));
  group.Switch("--retries,!--no-retries", flags.connection.retries,
               flags.connection.retries ? "Retry requests that no server accepted (default)"
                                        : "Retry requests that no server accepted");
  AddTlsFlags(group, flags);
  AddMetadataFlags(group, flags);
}

std::string IsPositiveDuration(const std::string& text) {
  return *ParseDuration(text) > absl::ZeroDuration()
             ? ""
             : absl::StrCat("expected more than 0 seconds, found \"", text, "\"");
}

absl::StatusOr<absl::Duration> ParseDuration(const std::string& text) {
  const std::optional<absl::Duration> duration = ReadDuration(text);
  if (!duration.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": expected a duration such as 10s, 500ms or 1m30s"));
  }
  if (*duration < absl::ZeroDuration() || *duration > absl::Hours(24 * 365)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected 0 seconds to a year"));
  }
  return *duration;
}

absl::StatusOr<std::unique_ptr<AttentionClient>> Connect(const ClientOptions& options) {
  absl::StatusOr<std::unique_ptr<AttentionClient>> client = AttentionClient::Connect(options);
  if (absl::IsInvalidArgument(client.status())) {
    RequireUsage(client.status());
  }
  return client;
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) {
    return 0;
  }
  PrintError(absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message()));
  return kExitFailed;
}

int ExitCodeOf(const absl::StatusOr<bool>& succeeded) {
  return succeeded.ok() && !*succeeded ? kExitFailed : ExitCodeOf(succeeded.status());
}

void RequireUsage(const absl::Status& status) {
  if (!status.ok()) {
    throw CLI::ValidationError(std::string(status.message()));
  }
}

}  // namespace attention
