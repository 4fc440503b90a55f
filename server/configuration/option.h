// One option of the server, which can be set by a flag, in the environment or in a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/server_options.h"

namespace attention {

struct IntegerRange {
  int64_t min;
  int64_t max;
};

struct Option {
  /// The type of the value in a JSON file.
  enum class Type {
    kText,
    kInteger,
    kSize,  // a number of bytes, or a text with a unit
    kNumber,
    kDuration,  // a text, or a number of seconds
    kSwitch,
  };

  /// The name, for example "max-queue-bytes" for --max-queue-bytes, ATTEND_MAX_QUEUE_BYTES, and
  /// "max_queue_bytes" in a file.
  std::string name;
  Type type = Type::kText;
  bool is_repeatable = false;
  /// The name of a value in the help: FILE.
  std::string placeholder = {};
  std::string help = {};
  /// The range of an integer, a size or a number; of a duration, in seconds.
  IntegerRange range = {};
  /// The minimum length of a text.
  int min_length = 0;
  /// The allowed texts. Empty: any text.
  std::vector<std::string> choices = {};
  /// Stores the values (one, unless the option is repeatable) in the options. INVALID_ARGUMENT
  /// gives what was expected and what was found, but does not name the option.
  std::function<absl::Status(const std::vector<std::string>& values, ServerOptions& options)>
      apply = {};
  /// The default values; empty: none.
  std::vector<std::string> default_values = {};
  /// The option that this one needs; empty: none.
  std::string needs = {};

  Option& WithDefault(const std::string& value);
  Option& Needs(const std::string& other);
};

/// The prefix of all variables.
inline constexpr char kVariablePrefix[] = "ATTEND_";

/// Return "ATTEND_MAX_QUEUE_BYTES" and "max_queue_bytes".
std::string VariableOf(const std::string& option);
std::string KeyOf(const std::string& option);

/// Returns how an error shows a text that was found.
std::string Shown(const std::string& text);

inline constexpr int64_t kMaxDurationSeconds = int64_t{24} * 3600;

// Functions that parse texts. INVALID_ARGUMENT gives what was expected and what was found, but does
// not name the option.
absl::StatusOr<int64_t> ParseInteger(const std::string& text, int64_t min, int64_t max);
/// Parses a number of bytes: "1000000", "500M" or "2Gi". Units are those of Kubernetes: k (or K),
/// M, G and T are powers of 1000; Ki, Mi, Gi and Ti are powers of 1024. A B may follow.
absl::StatusOr<int64_t> ParseSize(const std::string& text, IntegerRange range);
absl::StatusOr<bool> ParseSwitch(const std::string& text);
/// Parses a duration of 0, or of 1 ms to kMaxDurationSeconds: "30" (seconds), "30s", "1m30s". A
/// shorter one would only make a thread spin.
absl::StatusOr<absl::Duration> ParseDuration(const std::string& text);

// Functions that make options. A field is a pointer to a member of ServerOptions, or a function
// that returns a reference to the value in ServerOptions. The value in ServerOptions{} is the
// default.

/// Returns an Option::apply that stores what `parse` makes of the value, a StatusOr, in the field.
template <typename Field, typename Parse>
auto Stores(Field field, Parse parse) {
  return [field, parse](const std::vector<std::string>& values, ServerOptions& options) {
    const auto value = parse(values[0]);
    if (value.ok()) {
      std::invoke(field, options) = *value;
    }
    return value.status();
  };
}

template <typename Field>
Option IntegerOption(const std::string& name, Field field, IntegerRange range,
                     const std::string& help) {
  ServerOptions defaults;
  return {.name = name,
          .type = Option::Type::kInteger,
          .placeholder = "NUMBER",
          .help = help,
          .range = range,
          .apply = Stores(field,
                          [range](const std::string& text) {
                            return ParseInteger(text, range.min, range.max);
                          }),
          .default_values = {absl::StrCat(std::invoke(field, defaults))}};
}

template <typename Field>
Option SizeOption(const std::string& name, Field field, IntegerRange range,
                  const std::string& help) {
  ServerOptions defaults;
  return {
      .name = name,
      .type = Option::Type::kSize,
      .placeholder = "SIZE",
      .help = help,
      .range = range,
      .apply = Stores(field, [range](const std::string& text) { return ParseSize(text, range); }),
      .default_values = {absl::StrCat(std::invoke(field, defaults))}};
}

template <typename Field>
Option DurationOption(const std::string& name, Field field, const std::string& help) {
  ServerOptions defaults;
  return {.name = name,
          .type = Option::Type::kDuration,
          .placeholder = "DURATION",
          .help = help,
          .range = {0, kMaxDurationSeconds},
          .apply = Stores(field, ParseDuration),
          .default_values = {absl::FormatDuration(std::invoke(field, defaults))}};
}

template <typename Field>
Option SwitchOption(const std::string& name, Field field, const std::string& help) {
  return {.name = name,
          .type = Option::Type::kSwitch,
          .placeholder = "",
          .help = help,
          .apply = Stores(field, ParseSwitch),
          .default_values = {"false"}};
}

/// Makes an option whose value is a text that is not empty.
template <typename Field>
Option TextOption(const std::string& name, Field field, const std::string& placeholder,
                  const std::string& help) {
  ServerOptions defaults;
  const std::string& value = std::invoke(field, defaults);
  return {.name = name,
          .placeholder = placeholder,
          .help = help,
          .min_length = 1,
          .apply =
              [field](const std::vector<std::string>& values, ServerOptions& options) {
                std::invoke(field, options) = values[0];
                return values[0].empty()
                           ? absl::InvalidArgumentError("expected a text, found an empty one")
                           : absl::OkStatus();
              },
          .default_values =
              value.empty() ? std::vector<std::string>() : std::vector<std::string>{value}};
}

/// Makes a repeatable option of texts.
template <typename Field>
Option ListOption(const std::string& name, Field field, const std::string& placeholder,
                  const std::string& help) {
  ServerOptions defaults;
  return {.name = name,
          .is_repeatable = true,
          .placeholder = placeholder,
          .help = help,
          .apply =
              [field](const std::vector<std::string>& values, ServerOptions& options) {
                std::invoke(field, options) = values;
                return absl::OkStatus();
              },
          .default_values = std::invoke(field, defaults)};
}

/// Makes an option with a fixed set of names; the placeholder lists them: "none|failed|all".
template <typename Field, typename Value>
Option ChoiceOption(const std::string& name, Field field,
                    const std::vector<std::pair<std::string, Value>>& choices,
                    const std::string& help) {
  ServerOptions defaults;
  Option option = {.name = name, .placeholder = "", .help = help};
  for (const auto& [text, value] : choices) {
    option.choices.push_back(text);
    absl::StrAppend(&option.placeholder, option.placeholder.empty() ? "" : "|", text);
    if (value == std::invoke(field, defaults)) {
      option.default_values = {text};
    }
  }
  option.apply = [field, choices, expected = option.placeholder](
                     const std::vector<std::string>& values, ServerOptions& options) {
    for (const auto& [text, value] : choices) {
      if (text == values[0]) {
        std::invoke(field, options) = value;
        return absl::OkStatus();
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat("expected one of ", expected, ", found ", Shown(values[0])));
  };
  return option;
}

}  // namespace attention
