// Flags of one group of `--help`, and checks of their values.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace attention {

/// A check whose text is what `parse`, which returns a StatusOr, accepts.
template <typename Parse>
auto Accepts(Parse parse) {
  return [parse](const std::string& text) {
    const auto parsed = parse(text);
    return parsed.ok() ? std::string() : std::string(parsed.status().message());
  };
}

/// A check that says nothing in `--help`.
template <typename Number>
CLI::Validator Within(Number low, Number high) {
  return CLI::Range(low, high).description("");
}

/// "KEY=VALUE" with a key.
inline std::string CheckKeyValue(const std::string& text) {
  const size_t equals = text.find('=');
  return equals != std::string::npos && equals > 0 ? "" : "expected KEY=VALUE";
}

class HelpGroup {
 public:
  explicit HelpGroup(CLI::App& command, const std::string& title = "Options")
      : command_(command), title_(title) {}

  /// A flag, or a word in its own place, whose value goes to `target`; `type` is what a value looks
  /// like.
  template <typename T>
  CLI::Option* Value(const std::string& names, T& target, const std::string& type,
                     const std::string& help) {
    return command_.add_option(names, target, help)->type_name(type)->group(title_);
  }
  /// The same, and `--help` says what `target` is now.
  template <typename T>
  CLI::Option* Default(const std::string& names, T& target, const std::string& type,
                       const std::string& help) {
    return Value(names, target, type, help)->capture_default_str();
  }
  /// One of `choices`, "native|oip".
  CLI::Option* Choice(const std::string& names, std::string& target, const std::string& choices,
                      const std::string& help) {
    return Value(names, target, choices, help)->check(OneOf(choices));
  }
  /// May be repeated, each time with one value.
  CLI::Option* List(const std::string& names, std::vector<std::string>& target,
                    const std::string& type, const std::string& help) {
    return Value(names, target, type, help)->expected(1)->take_all();
  }
  /// A value that `set` takes.
  template <typename T, typename Set>
  CLI::Option* Setter(const std::string& names, Set set, const std::string& type,
                      const std::string& help) {
    return command_.add_option_function<T>(
                       names, [set](const T& value) { set(value); }, help)
        ->type_name(type)
        ->group(title_);
  }
  CLI::Option* Switch(const std::string& names, bool& target, const std::string& help) {
    return command_.add_flag(names, target, help)->group(title_);
  }
  /// A switch whose state `set` takes.
  template <typename Set>
  CLI::Option* SwitchSetter(const std::string& names, Set set, const std::string& help) {
    return command_.add_flag_function(
                       names, [set](int64_t count) { set(count > 0); }, help)
        ->group(title_);
  }

  /// One of "native|oip".
  static CLI::Validator OneOf(const std::string& choices) {
    const std::vector<std::string> words = absl::StrSplit(choices, '|');
    return CLI::IsMember(words).description("");
  }

 private:
  CLI::App& command_;
  const std::string title_;
};

}  // namespace attention
