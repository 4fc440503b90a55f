// The values that flags, environment and file give to the options, and which of them wins.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/configuration/option.h"
#include "server/server_options.h"

namespace attention {

/// Environment variables by name.
using Environment = std::map<std::string, std::string>;

/// The value of one option, and where it comes from.
struct Setting {
  std::vector<std::string> values;
  /// The origin of the values: "--threads", "ATTEND_THREADS" or "FILE: threads".
  std::string source;
};

/// The options that are set, by name. `first.merge(second)` keeps the values of the first.
using Settings = std::map<std::string, Setting>;

/// Reads the variables named ATTEND_*. A semicolon separates several values; an empty variable is
/// ignored. INVALID_ARGUMENT for a name within one or two typing errors of an option's. Other names
/// with this prefix give a warning, except for those that Kubernetes derives from the name of a
/// service.
absl::StatusOr<Settings> ReadEnvironment(const Environment& environment,
                                         std::vector<std::string>& warnings);

/// Reads a file with a JSON object, which may have comments as in C++. NOT_FOUND when the file does
/// not exist; INVALID_ARGUMENT names file, line or key, what was expected and what was found, and
/// for an unknown key the nearest one.
absl::StatusOr<Settings> ReadConfigurationFile(const std::string& path);

/// Applies the defaults, then the settings. INVALID_ARGUMENT names the source.
absl::Status Apply(const Settings& settings, ServerOptions& options);

/// Returns the values of one option as they stand in a file; null for none.
nlohmann::ordered_json ToJson(const Option& option, const std::vector<std::string>& values);

/// Returns all options as a file that ReadConfigurationFile reads. The user and password of a URL
/// are replaced by "hidden", which Apply refuses.
std::string ToJson(const Settings& settings);

}  // namespace attention
