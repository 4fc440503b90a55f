#include "client/cli/server_flags.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"

namespace attention {
namespace {

constexpr char kServerGroup[] = "Server";

TlsOptions& TlsOf(ServerFlags& flags) {
  if (!flags.connection.tls.has_value()) {
    flags.connection.tls.emplace();
  }
  return *flags.connection.tls;
}

void AddTlsFlags(CLI::App& command, ServerFlags& flags) {
  command.add_flag_callback(
             "--tls", [&flags] { TlsOf(flags); }, "Speak TLS; implied by the next")
      ->group(kServerGroup);
  const auto add = [&](const char* name, std::string TlsOptions::* member, const char* help) {
    return command
        .add_option_function<std::string>(
            name, [&flags, member](const std::string& text) { TlsOf(flags).*member = text; }, help)
        ->group(kServerGroup);
  };
  const auto add_file = [&](const char* name, std::string TlsOptions::* member, const char* help) {
    return add(name, member, help)->type_name("FILE")->check(CLI::ExistingFile.description(""));
  };
  add_file("--ca", &TlsOptions::ca_file,
           "PEM: authorities that may vouch for the server, instead of the system's");
  CLI::Option* const certificate =
      add_file("--certificate", &TlsOptions::certificate_file, "PEM: what the client shows (mTLS)");
  CLI::Option* const key =
      add_file("--certificate-key", &TlsOptions::key_file, "PEM: the certificate's key");
  certificate->needs(key);
  key->needs(certificate);
  add("--server-name", &TlsOptions::server_name,
      "The name in the server's certificate, if not that of the address")
      ->type_name("NAME");
}

/// Surrounding white space is no part of a token.
std::string ReadToken(const std::string& path) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string token(absl::StripAsciiWhitespace(text));
  if (token.empty()) {
    throw CLI::ValidationError("--token-file", path + ": expected a token, found none");
  }
  return token;
}

void AddMetadataFlags(CLI::App& command, ServerFlags& flags) {
  command
      .add_option_function<std::string>(
          "--token-file",
          [&flags](const std::string& path) { flags.connection.token = ReadToken(path); },
          "Send what this file holds as bearer token")
      ->type_name("FILE")
      ->group(kServerGroup);
  command
      .add_option_function<std::vector<std::string>>(
          "-m,--metadata",
          [&flags](const std::vector<std::string>& pairs) {
            for (const std::string& text : pairs) {
              const std::pair<std::string, std::string> pair =
                  absl::StrSplit(text, absl::MaxSplits('=', 1));
              flags.connection.metadata.emplace_back(absl::AsciiStrToLower(pair.first),
                                                     pair.second);
            }
          },
          "Send with every request; may be repeated")
      ->type_name("KEY=VALUE")
      ->type_size(1)
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        const size_t equals = text.find('=');
        return equals != std::string::npos && equals > 0 ? "" : "expected KEY=VALUE";
      })
      ->group(kServerGroup);
}

}  // namespace

void AddServerFlags(CLI::App& command, ServerFlags& flags) {
  command
      .add_option(
          "--server", flags.connection.server,
          "host:port or unix:/path; several after commas, or dns:///name:port for all hosts of "
          "that name, take turns")
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->check([](const std::string& text) {
        return text.empty() ? "expected host:port or unix:/path" : "";
      })
      ->group(kServerGroup);
  AddDuration(command, "-t,--timeout", flags.timeout, "Give up on a request after this long")
      ->check([](const std::string& text) {
        return *ParseDuration(text) > absl::ZeroDuration() ? "" : "expected more than 0 seconds";
      })
      ->group(kServerGroup);
  command
      .add_flag("--retries,!--no-retries", flags.connection.retries,
                flags.connection.retries
                    ? "Whether requests that no server could take are made again (default)"
                    : "Make requests again that no server could take")
      ->group(kServerGroup);
  AddTlsFlags(command, flags);
  AddMetadataFlags(command, flags);
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
      {.connection = flags.connection, .timeout = *ParseDuration(flags.timeout)});
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
