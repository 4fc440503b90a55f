#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/files/terminal_size.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "client/cli/top/top_text.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kTopExamples[] =
    R"(On a terminal each update takes the place of the last, until Ctrl-C. Elsewhere, or with --count,
it is printed below the last.
Times are means of the requests answered since the last update. A batch is the requests that the
server computes together.

Examples:
  attend top
  attend top --interval 5s
  attend top --count 1

Exit codes: 0 done, 1 the server did not answer (on a terminal it keeps trying), 2 wrong usage.)";

/// Moves to the upper left corner, and clears what is below.
constexpr char kClearScreen[] = "\x1b[H\x1b[J";
/// The time until the first update: a terminal shows something soon.
constexpr absl::Duration kFirstInterval = absl::Milliseconds(300);

struct TopFlags {
  ClientOptions server;
  absl::Duration interval = absl::Seconds(1);
  int64_t count = 0;  // 0: until Ctrl-C
};

void Show(const std::string& text, bool is_first) {
  const std::optional<TerminalSize> terminal = SizeOfTerminal();
  if (terminal.has_value()) {
    std::cout << kClearScreen << FitTo(*terminal, text) << std::flush;
  } else {
    std::cout << (is_first ? "" : "\n") << text << std::flush;
  }
}

absl::Status CheckTopFlags(const TopFlags& flags) {
  const std::string& server = flags.server.connection.server;
  return absl::StrContains(server, ',')
             ? absl::InvalidArgumentError(absl::StrCat(
                   "--server: expected one server, whose counts can be compared, found several: ",
                   server))
             : absl::OkStatus();
}

absl::Status RunTop(const TopFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, Connect(flags.server));
  const bool keeps_trying = flags.count == 0 && SizeOfTerminal().has_value();
  TopView view{.server = flags.server.connection.server};
  std::optional<absl::Time> read_at;  // of view.statistics
  for (int64_t shown = 0; (flags.count == 0 || shown < flags.count) && std::cout.good();) {
    absl::StatusOr<v1::ServerStatistics> now = client->GetStatistics();
    view.time = absl::FormatTime("%H:%M:%S", absl::Now(), absl::LocalTimeZone());
    if (!now.ok() && !keeps_trying) {
      return now.status();
    }
    if (!now.ok()) {
      Show(NoAnswerText(view, now.status(), SizeOfTerminal()), false);
    } else if (read_at.has_value()) {
      view.change = ChangeBetween(view.statistics, *now, absl::Now() - *read_at);
      view.statistics = *std::move(now);
      Show(TopText(view), shown++ == 0);
      read_at = absl::Now();
    } else {
      view.statistics = *std::move(now);
      read_at = absl::Now();
    }
    if (flags.count == 0 || shown < flags.count) {
      absl::SleepFor(shown == 0 && keeps_trying ? std::min(flags.interval, kFirstInterval)
                                                : flags.interval);
    }
  }
  return absl::OkStatus();
}

void AddFlags(CLI::App& command, TopFlags& flags) {
  AddServerFlags(command, flags.server);
  HelpGroup group(command);
  group
      .Parsed("--interval", ParseDuration, Into(flags.interval), "DURATION",
              "Time between updates; at least 50ms")
      ->default_str(absl::FormatDuration(flags.interval))
      ->check([](const std::string& text) {
        return *ParseDuration(text) >= absl::Milliseconds(50)
                   ? ""
                   : absl::StrCat("expected at least 50ms, found \"", text, "\"");
      });
  group.Value("--count", flags.count, "N", "Print this many updates, then exit")->check(AtLeast(1));
}

}  // namespace

void AddTopCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<TopFlags>();
  flags->server.timeout = absl::Seconds(2);
  CLI::App* const command =
      app.add_subcommand("top", "Watch the server: rates, times, batches, queue and models");
  AddFlags(*command, *flags);
  command->footer(kTopExamples);
  command->callback([flags, &exit_code] {
    RequireUsage(CheckTopFlags(*flags));
    exit_code = ExitCodeOf(RunTop(*flags));
  });
}

}  // namespace attention
