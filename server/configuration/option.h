// One option of the server, however it is given: as a flag, in the environment or in a file.
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
  /// What a file's JSON has for it.
  enum class Type {
    kText,
    kInteger,
    kNumber,
    kDuration,  // a text, or a number of seconds
    kSwitch,
  };

  /// "max-queue-bytes": --max-queue-bytes, ATTEND_MAX_QUEUE_BYTES, "max_queue_bytes" in a file.
  std::string name;
  Type type = Type::kText;
  bool is_repeatable = false;
  /// What the help calls a value: FILE.
  std::string placeholder = {};
  std::string help = {};
  /// Of an integer or a number; of a duration, in seconds.
  IntegerRange range = {};
  /// Of a text.
  int min_length = 0;
  /// The only texts it may be. Empty: any.
  std::vector<std::string> choices = {};
  /// Puts values, one unless repeatable, where they belong. INVALID_ARGUMENT says what was expected
  /// and what was found, but not of which option.
  std::function<absl::Status(const std::vector<std::string>& values, ServerOptions& options)>
      apply = {};
  /// Empty: none.
  std::vector<std::string> default_values = {};
  /// The option without which this one says nothing. Empty: none.
  std::string needs = {};

  Option& WithDefault(const std::string& value);
  Option& Needs(const std::string& other);
};

/// What all variables begin with.
inline constexpr char kVariablePrefix[] = "ATTEND_";

/// "ATTEND_MAX_QUEUE_BYTES" and "max_queue_bytes".
std::string VariableOf(const std::string& option);
std::string KeyOf(const std::string& option);

inline constexpr int64_t kMaxDurationSeconds = int64_t{24} * 3600;

// Texts as values.
absl::StatusOr<int64_t> ParseInteger(const std::string& text, int64_t min, int64_t max);
absl::StatusOr<bool> ParseSwitch(const std::string& text);
/// 0 to kMaxDurationSeconds: "30" (seconds), "30s", "1m30s".
absl::StatusOr<absl::Duration> ParseDuration(const std::string& text);

// Kinds of options. A field is a pointer to a member of ServerOptions, or a function that leads
// from one to a reference to the value; what it holds in ServerOptions{} is the default.

template <typename Field>
Option IntegerOption(const std::string& name, Field field, IntegerRange range,
                     const std::string& help) {
  ServerOptions defaults;
  return {.name = name,
          .type = Option::Type::kInteger,
          .placeholder = "NUMBER",
          .help = help,
          .range = range,
          .apply =
              [field, range](const std::vector<std::string>& values, ServerOptions& options) {
                const absl::StatusOr<int64_t> value = ParseInteger(values[0], range.min, range.max);
                if (value.ok()) {
                  std::invoke(field, options) = *value;
                }
                return value.status();
              },
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
          .apply =
              [field](const std::vector<std::string>& values, ServerOptions& options) {
                const absl::StatusOr<absl::Duration> value = ParseDuration(values[0]);
                if (value.ok()) {
                  std::invoke(field, options) = *value;
                }
                return value.status();
              },
          .default_values = {absl::FormatDuration(std::invoke(field, defaults))}};
}

template <typename Field>
Option SwitchOption(const std::string& name, Field field, const std::string& help) {
  return {.name = name,
          .type = Option::Type::kSwitch,
          .placeholder = "",
          .help = help,
          .apply =
              [field](const std::vector<std::string>& values, ServerOptions& options) {
                const absl::StatusOr<bool> value = ParseSwitch(values[0]);
                if (value.ok()) {
                  std::invoke(field, options) = *value;
                }
                return value.status();
              },
          .default_values = {"false"}};
}

/// A text that is not empty.
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

/// Repeatable texts.
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

/// One of a few names; the placeholder lists them: "none|failed|all".
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
        absl::StrCat("expected one of ", expected, ", found ", values[0]));
  };
  return option;
}

}  // namespace attention
