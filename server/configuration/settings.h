// What flags, environment and file say of the options: which says it, and which of them wins.
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

/// What one option is set to.
struct Setting {
  std::vector<std::string> values;
  /// "--threads", "ATTEND_THREADS" or "FILE: threads".
  std::string source;
};

/// By the options' names, those that are set. Of two, `first.merge(second)` lets the first win.
using Settings = std::map<std::string, Setting>;

/// Variables named ATTEND_*; several values have a semicolon between them, an empty variable is
/// none. INVALID_ARGUMENT for one that is a slip or two from an option's; others of that
/// beginning are warned of, but for those that Kubernetes makes of a service's name.
absl::StatusOr<Settings> ReadEnvironment(const Environment& environment,
                                         std::vector<std::string>& warnings);

/// A file with a JSON object; comments as in C++ are allowed. NOT_FOUND when there is no such file;
/// INVALID_ARGUMENT names file, line or key, what was expected and what was found, and for an
/// unknown key the nearest.
absl::StatusOr<Settings> ReadConfigurationFile(const std::string& path);

/// Defaults, then the settings. INVALID_ARGUMENT names the source.
absl::Status Apply(const Settings& settings, ServerOptions& options);

/// The values of one option, as a file has them; null for none.
nlohmann::ordered_json ToJson(const Option& option, const std::vector<std::string>& values);

/// All options, as a file that ReadConfigurationFile reads. The user and password of a URL are
/// replaced by "hidden", which Apply refuses.
std::string ToJson(const Settings& settings);

}  // namespace attention
