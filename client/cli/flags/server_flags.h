// The common part of all subcommands: the server, the timeout, and how errors are printed.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/lib/attention_client.h"

namespace attention {

/// Adds --server, --timeout and --retries, and those of TLS, token and metadata, with the defaults
/// that `options` has now. The parser reads the file of a token.
void AddServerFlags(CLI::App& command, ClientOptions& options);

/// Returns an error text unless the duration is more than 0. REQUIRES: ParseDuration accepts
/// `text`.
std::string IsPositiveDuration(const std::string& text);

/// Parses "10s", "500ms", "1m30s", or a plain number of seconds; finite and not negative.
absl::StatusOr<absl::Duration> ParseDuration(const std::string& text);

/// Makes a client for `options`. Throws CLI::ValidationError, as RequireUsage does, for options
/// that no server could be asked with: an address without a port, metadata that gRPC does not
/// accept.
absl::StatusOr<std::unique_ptr<AttentionClient>> Connect(const ClientOptions& options);

/// Returns the exit code 0 for OK; for an error, whose "attend: CODE: text" is printed to stderr,
/// kExitFailed.
int ExitCodeOf(const absl::Status& status);
/// Returns the exit code as above; kExitFailed also for false.
int ExitCodeOf(const absl::StatusOr<bool>& succeeded);

/// Throws CLI::ValidationError for an error, which makes the parser exit with its text and code 2.
void RequireUsage(const absl::Status& status);

}  // namespace attention
