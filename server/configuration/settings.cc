#include "server/configuration/settings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/runtime/json_text.h"
#include "core/runtime/nearest_name.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"
#include "nlohmann/json.hpp"
#include "server/configuration/option_table.h"
#include "server/observability/url_secret.h"

namespace attention {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxFileBytes = size_t{1} << 20;

template <typename Visitor>
void ForEachOption(const Visitor& visit) {
  for (const OptionSection& section : OptionSections()) {
    for (const Option& option : section.options) {
      visit(option);
    }
  }
}

// The key with which a file tells editors where its schema is.
constexpr char kSchemaKey[] = "$schema";

// Returns whether Kubernetes made the variable for a service named "attend" of the namespace
// ("Service environment variables"): ATTEND_PORT=tcp://10.0.0.1:8001, ATTEND_PORT_8001_TCP_ADDR,
// ...
bool IsServiceLink(const std::string& name, const std::string& value) {
  if (absl::StrContains(name, "_SERVICE_HOST") || absl::StrContains(name, "_SERVICE_PORT")) {
    return true;
  }
  for (const char* const protocol : {"tcp", "udp", "sctp"}) {
    const std::string infix = absl::StrCat("_", absl::AsciiStrToUpper(protocol));
    if ((absl::StrContains(name, "_PORT") &&
         absl::StartsWith(value, absl::StrCat(protocol, "://"))) ||
        (absl::StrContains(name, "_PORT_") && absl::StrContains(name, infix))) {
      return true;
    }
  }
  return false;
}

// The maximum number of typing errors. Names that are less similar may belong to other programs.
constexpr size_t kMaxSlips = 2;

// Checks a variable; `keys` are the keys of all options.
absl::Status CheckVariable(const std::string& variable, const std::vector<std::string>& keys,
                           std::vector<std::string>& warnings) {
  const std::string key = absl::AsciiStrToLower(absl::StripPrefix(variable, kVariablePrefix));
  const auto is_ours = [&](const std::string& known) { return VariableOf(known) == variable; };
  if (std::any_of(keys.begin(), keys.end(), is_ours)) {
    return absl::OkStatus();
  }
  std::string text = absl::StrCat(variable, ": no option has this variable");
  // The names are compared without their common prefix.
  const std::optional<std::string> nearest = NearestName(key, keys);
  if (nearest.has_value()) {
    absl::StrAppend(&text, "; the nearest is ", VariableOf(*nearest));
    if (TypingErrors(key, *nearest) <= kMaxSlips) {
      return absl::InvalidArgumentError(text);
    }
  }
  warnings.push_back(text);
  return absl::OkStatus();
}

absl::Status WrongType(const std::string& expected, const json& found) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, ", found ", found.type_name(), " ", found.dump()));
}

absl::StatusOr<std::string> ToText(const Option& option, const json& value) {
  switch (option.type) {
    case Option::Type::kSize:
      if (value.is_string()) {
        return value.get<std::string>();
      }
      [[fallthrough]];
    case Option::Type::kInteger:
      if (double whole = 0;
          value.is_number_float() && std::modf(value.get<double>(), &whole) == 0) {
        return absl::StrFormat("%.0f", whole);
      }
      [[fallthrough]];
    case Option::Type::kNumber:
      return value.is_number() ? absl::StatusOr<std::string>(value.dump())
                               : WrongType("a number", value);
    case Option::Type::kSwitch:
      return value.is_boolean() ? absl::StatusOr<std::string>(value.dump())
                                : WrongType("true or false", value);
    case Option::Type::kDuration:
      if (value.is_number()) {
        return value.dump();
      }
      return value.is_string() ? absl::StatusOr<std::string>(value.get<std::string>())
                               : WrongType("a duration, as 30 (seconds), 30s or 1m30s", value);
    case Option::Type::kText:
      break;
  }
  return value.is_string() ? absl::StatusOr<std::string>(value.get<std::string>())
                           : WrongType("a string", value);
}

absl::StatusOr<std::vector<std::string>> ToTexts(const Option& option, const json& value) {
  if (value.is_array() && !option.is_repeatable) {
    return WrongType("one value", value);
  }
  std::vector<std::string> texts;
  for (const json& element : value.is_array() ? value : json::array({value})) {
    ASSIGN_OR_RETURN(texts.emplace_back(), ToText(option, element));
  }
  return texts;
}

// Parses the file. Unlike ParseJsonObject it takes comments, refuses a key that is given twice, and
// says where the text is no JSON: people write this file.
absl::StatusOr<json> ParseFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxFileBytes));
  RETURN_IF_ERROR(CheckJsonText(text, path));
  json parsed;
  try {
    parsed = json::parse(text, nullptr, /*allow_exceptions=*/true, /*ignore_comments=*/true);
  } catch (const json::exception& error) {  // grammar, and numbers beyond a double's
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at …"
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what.substr(what.find("] ") + 2)));
  }
  if (const std::optional<std::string> repeated = RepeatedJsonName(text)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", *repeated, ": given twice"));
  }
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a JSON object, found ", parsed.type_name()));
  }
  return parsed;
}

ordered_json ToJson(const Option& option, const std::string& text) {
  using Limits = std::numeric_limits<int64_t>;
  switch (option.type) {
    case Option::Type::kInteger: {
      const absl::StatusOr<int64_t> value = ParseInteger(text, Limits::min(), Limits::max());
      return value.ok() ? ordered_json(*value) : ordered_json(text);
    }
    case Option::Type::kSize: {
      const absl::StatusOr<int64_t> value = ParseSize(text, {0, Limits::max()});
      return value.ok() ? ordered_json(*value) : ordered_json(text);
    }
    case Option::Type::kNumber: {
      // Keeps the text of a number as it was written, if it is a valid JSON number: ".5" is one for
      // options only.
      const ordered_json parsed = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (parsed.is_number()) {
        return parsed;
      }
      double value = 0;
      return absl::SimpleAtod(text, &value) ? ordered_json(value) : ordered_json(text);
    }
    case Option::Type::kSwitch: {
      const absl::StatusOr<bool> value = ParseSwitch(text);
      return value.ok() ? ordered_json(*value) : ordered_json(text);
    }
    default:
      return WithoutSecret(text);
  }
}

}  // namespace

absl::StatusOr<Settings> ReadEnvironment(const Environment& environment,
                                         std::vector<std::string>& warnings) {
  Settings settings;
  std::vector<std::string> keys = {"config"};
  ForEachOption([&](const Option& option) {
    keys.push_back(KeyOf(option.name));
    const auto found = environment.find(VariableOf(option.name));
    if (found == environment.end() || found->second.empty()) {
      return;
    }
    Setting setting{.source = found->first};
    if (option.is_repeatable) {
      setting.values = absl::StrSplit(found->second, ';', absl::SkipEmpty());
    } else {
      setting.values = {found->second};
    }
    if (!setting.values.empty()) {
      settings[option.name] = std::move(setting);
    }
  });
  for (const auto& [variable, value] : environment) {
    if (absl::StartsWith(variable, kVariablePrefix) && !IsServiceLink(variable, value)) {
      RETURN_IF_ERROR(CheckVariable(variable, keys, warnings));
    }
  }
  return settings;
}

absl::StatusOr<Settings> ReadConfigurationFile(const std::string& path) {
  ASSIGN_OR_RETURN(json file, ParseFile(path));
  Settings settings;
  std::vector<std::string> keys = {kSchemaKey};
  absl::Status status;
  ForEachOption([&](const Option& option) {
    keys.push_back(KeyOf(option.name));
    const auto found = file.find(keys.back());
    if (!status.ok() || found == file.end() || found->is_null()) {
      return;
    }
    const std::string source = absl::StrCat(path, ": ", keys.back());
    const absl::StatusOr<std::vector<std::string>> texts = ToTexts(option, *found);
    if (!texts.ok()) {
      status = absl::InvalidArgumentError(
          absl::StrCat(source, ": ", std::string(texts.status().message())));
    } else if (!texts->empty()) {
      settings[option.name] = {*texts, source};
    }
  });
  for (const auto& [key, value] : file.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", key, ": no option has this key", NearestHint(key, keys)));
    }
  }
  RETURN_IF_ERROR(status);
  return settings;
}

absl::Status Apply(const Settings& settings, ServerOptions& options) {
  absl::Status status;
  ForEachOption([&](const Option& option) {
    const auto found = settings.find(option.name);
    const bool is_set = found != settings.end();
    const std::vector<std::string>& values = is_set ? found->second.values : option.default_values;
    if (!status.ok() || values.empty()) {
      return;
    }
    const std::string source = is_set ? found->second.source : absl::StrCat("--", option.name);
    status = absl::StrContains(values[0], kHiddenSecret)
                 ? absl::InvalidArgumentError(
                       "expected user and password in the URL, found \"hidden\", which "
                       "--print-config writes in their place")
                 : option.apply(values, options);
    if (!status.ok()) {
      status = Prefixed(source, status);
    } else if (!option.needs.empty() && values != option.default_values &&
               !settings.contains(option.needs)) {
      status = absl::InvalidArgumentError(absl::StrCat(source, " requires --", option.needs));
    }
  });
  return status;
}

ordered_json ToJson(const Option& option, const std::vector<std::string>& values) {
  ordered_json list = ordered_json::array();
  for (const std::string& value : values) {
    list.push_back(ToJson(option, value));
  }
  return option.is_repeatable ? list : list.empty() ? ordered_json() : list.back();
}

std::string ToJson(const Settings& settings) {
  ordered_json file = ordered_json::object();
  ForEachOption([&](const Option& option) {
    const auto found = settings.find(option.name);
    file[KeyOf(option.name)] =
        ToJson(option, found == settings.end() ? option.default_values : found->second.values);
  });
  return file.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace attention
