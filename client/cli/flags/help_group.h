// Flags of one group of `--help`, and checks of their values.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace attention {

/// A check for texts that `parse`, which returns a StatusOr, accepts.
template <typename Parse>
auto Accepts(Parse parse) {
  return [parse](const std::string& text) {
    const auto parsed = parse(text);
    return parsed.ok() ? std::string() : std::string(parsed.status().message());
  };
}

/// A setter that assigns to `target`.
template <typename T>
auto Into(T& target) {
  return [&target](const auto& value) { target = value; };
}

/// Returns a check for numbers that `accepts` returns true for. It adds nothing to `--help`.
template <typename Predicate>
CLI::Validator NumberThat(Predicate accepts, const std::string& expected) {
  return CLI::Validator(
      [accepts, expected](const std::string& text) {
        double number = 0;
        return CLI::detail::lexical_cast(text, number) && accepts(number)
                   ? std::string()
                   : absl::StrCat("expected ", expected, ", found \"", text, "\"");
      },
      "");
}
/// A check for numbers from `low` to `high`, or for integers if these are.
template <typename Number>
CLI::Validator Within(Number low, Number high) {
  constexpr bool kIsInteger = std::is_integral_v<Number>;
  return NumberThat(
      [low, high](double x) {
        return x >= low && x <= high && (!kIsInteger || x == std::floor(x));
      },
      absl::StrCat(kIsInteger ? "an integer from " : "a number from ", low, " to ", high));
}
/// A check for names of files: an unset variable of a shell is an empty one.
inline CLI::Validator FileName() {
  return CLI::Validator(
      [](const std::string& text) { return text.empty() ? "expected a file, found \"\"" : ""; },
      "");
}
/// A check for integers from `low` on.
inline CLI::Validator AtLeast(uint64_t low) {
  return CLI::Validator(
      [low](const std::string& text) {
        uint64_t number = 0;
        const bool is_read = absl::SimpleAtoi(text, &number);  // too large: the largest
        if (is_read && number >= low) {
          return std::string();
        }
        const bool is_too_large = !is_read && number == std::numeric_limits<uint64_t>::max();
        return absl::StrCat("expected an integer ",
                            is_too_large ? "below 2^64" : absl::StrCat("of at least ", low),
                            ", found \"", text, "\"");
      },
      "");
}

/// A rule about flags that do not go together, and its error.
struct FlagRule {
  bool is_broken;
  const char* text;
};
/// Returns INVALID_ARGUMENT with the text of the first rule that is broken.
inline absl::Status CheckRules(std::initializer_list<FlagRule> rules) {
  for (const FlagRule& rule : rules) {
    if (rule.is_broken) {
      return absl::InvalidArgumentError(rule.text);
    }
  }
  return absl::OkStatus();
}

/// Adds flags to a group of a command's help.
class HelpGroup {
 public:
  /// Borrows `command`. Without a title, flags go to the default group of the parser.
  explicit HelpGroup(CLI::App& command, const std::string& title = "")
      : command_(command), title_(title) {}

  /// A flag or a positional argument whose value goes to `target`; `type` is the form of a value.
  template <typename T>
  CLI::Option* Value(const std::string& names, T& target, const std::string& type,
                     const std::string& help) {
    return Grouped(command_.add_option(names, target, help)->type_name(type));
  }
  /// Adds such a flag; `--help` shows the present value of `target` as the default.
  template <typename T>
  CLI::Option* Default(const std::string& names, T& target, const std::string& type,
                       const std::string& help) {
    return Value(names, target, type, help)->capture_default_str();
  }
  /// Adds a flag whose value is one of `choices`, "native|oip".
  CLI::Option* Choice(const std::string& names, std::string& target, const std::string& choices,
                      const std::string& help) {
    return Value(names, target, choices, help)->check(OneOf(choices));
  }
  /// Adds a flag that may be repeated, each time with one value.
  CLI::Option* List(const std::string& names, std::vector<std::string>& target,
                    const std::string& type, const std::string& help) {
    return Value(names, target, type, help)->expected(1)->take_all();
  }
  /// A flag whose value goes to `set`.
  template <typename T, typename Set>
  CLI::Option* Setter(const std::string& names, const Set& set, const std::string& type,
                      const std::string& help) {
    const std::function<void(const T&)> take = [set](const T& value) { set(value); };
    return Grouped(command_.add_option_function<T>(names, take, help)->type_name(type));
  }
  /// A flag whose text `parse`, which returns a StatusOr, accepts; what it returns goes to `set`.
  template <typename Parse, typename Set>
  CLI::Option* Parsed(const std::string& names, Parse parse, const Set& set,
                      const std::string& type, const std::string& help) {
    return Setter<std::string>(
               names, [parse, set](const std::string& text) { set(*parse(text)); }, type, help)
        ->check(Accepts(parse));
  }
  /// A flag KEY=VALUE that may be repeated; calls `take` with each key and value.
  template <typename Take>
  CLI::Option* Pairs(const std::string& names, const Take& take, const std::string& help) {
    const auto split = [take](const std::vector<std::string>& texts) {
      for (const std::string& text : texts) {
        const size_t equals = text.find('=');
        take(text.substr(0, equals), text.substr(equals + 1));
      }
    };
    return Setter<std::vector<std::string>>(names, split, "KEY=VALUE", help)
        ->expected(1)
        ->take_all()
        ->check([](const std::string& text) {
          const size_t equals = text.find('=');
          return equals != std::string::npos && equals > 0
                     ? std::string()
                     : absl::StrCat("expected KEY=VALUE, found \"", text, "\"");
        });
  }
  CLI::Option* Switch(const std::string& names, bool& target, const std::string& help) {
    return Grouped(command_.add_flag(names, target, help));
  }
  /// A switch whose state goes to `set`, the last one if it is given several times.
  template <typename Set>
  CLI::Option* SwitchSetter(const std::string& names, const Set& set, const std::string& help) {
    const auto take = [set](int64_t count) { set(count > 0); };
    return Grouped(command_.add_flag_function(names, take, help))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  /// A switch that calls `set` when it is on. When it is off (--name=false), nothing is called.
  template <typename Set>
  CLI::Option* OnSwitch(const std::string& names, const Set& set, const std::string& help) {
    const auto take = [set](bool on) {
      if (on) {
        set();
      }
    };
    return SwitchSetter(names, take, help);
  }

  /// Returns a check for one of `choices`, "native|oip"; "|last" also accepts an empty text.
  static CLI::Validator OneOf(const std::string& choices) {
    const std::vector<std::string> words = absl::StrSplit(choices, '|');
    const std::vector<std::string> shown = absl::StrSplit(choices, '|', absl::SkipEmpty());
    return CLI::Validator(
        [words, shown](const std::string& text) {
          return std::find(words.begin(), words.end(), text) != words.end()
                     ? std::string()
                     : absl::StrCat("expected ", shown.size() > 1 ? "one of " : "",
                                    absl::StrJoin(shown, ", "), ", found \"", text, "\"");
        },
        "");
  }

 private:
  CLI::Option* Grouped(CLI::Option* option) const {
    return title_.empty() ? option : option->group(title_);
  }

  CLI::App& command_;
  const std::string title_;
};

}  // namespace attention
