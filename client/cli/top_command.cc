#include <algorithm>
#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "client/top/terminal.h"
#include "client/top/top_screen.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kTopExamples[] =
    R"(On a terminal it fills the screen. Keys: q quits, p pauses, s sorts the models by another column.
Elsewhere, or with --once, --count or --json, it prints each update below the last.
Times are means of the requests answered since the last update; a batch is computed together.

Examples:
  attend top
  attend top --interval 5s --sort time
  attend top --once
  attend top --json --interval 10s >> load.jsonl

Exit codes: 0 done, 1 the server did not answer (on a terminal it keeps trying), 2 wrong usage.)";

constexpr size_t kMaxHistory = 300;

struct TopFlags {
  ServerFlags server;
  std::string interval = "1s";
  int64_t count = 0;  // 0: until it is told to stop
  bool once = false;
  bool json = false;
  std::string order = "rate";

  bool is_plain() const { return once || json || count > 0; }
};

/// The view and what it is made of.
class Top {
 public:
  Top(AttentionClient& client, const TopFlags& flags) : client_(client) {
    view_.server = flags.server.connection.server;
    while (Name(view_.order) != flags.order) {
      view_.order = NextOrder(view_.order);
    }
  }

  /// The first look only remembers what the next ones count from.
  absl::Status LookAgain(const char* time_format) {
    absl::StatusOr<v1::ServerStatistics> statistics = client_.GetStatistics();
    view_.time = absl::FormatTime(time_format, absl::Now(), absl::LocalTimeZone());
    view_.trouble = statistics.ok() ? "" : std::string(statistics.status().message());
    RETURN_IF_ERROR(statistics.status());
    if (is_known_) {
      view_.rates = RatesBetween(view_.statistics, *statistics);
      view_.history.push_back({.answered_per_s = view_.rates.answered_per_s,
                               .busy_share = view_.rates.busy_share,
                               .total_ms = view_.rates.times.total_ms().value_or(0)});
      if (view_.history.size() > kMaxHistory) {
        view_.history.pop_front();
      }
    }
    view_.statistics = *std::move(statistics);
    is_known_ = true;
    return absl::OkStatus();
  }

  TopView& view() { return view_; }

 private:
  AttentionClient& client_;
  bool is_known_ = false;  // the statistics of the view
  TopView view_;
};

absl::Status PrintPlain(const TopFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, ConnectTo(flags.server));
  const absl::Duration interval = *ParseDuration(flags.interval);
  const int64_t count = flags.once ? 1 : flags.count;
  Top top(*client, flags);
  RETURN_IF_ERROR(top.LookAgain("%H:%M:%S"));
  for (int64_t i = 0; (count == 0 || i < count) && std::cout.good(); ++i) {
    absl::SleepFor(interval);
    RETURN_IF_ERROR(top.LookAgain(flags.json ? absl::RFC3339_sec : "%H:%M:%S"));
    if (flags.json) {
      std::cout << TopJson(top.view()).dump() << std::endl;
    } else {
      std::cout << (i == 0 ? "" : "\n")
                << TopText(top.view(), {.width = OutputWidth(), .has_blocks = IsUtf8Locale()})
                << std::flush;
    }
  }
  return absl::OkStatus();
}

/// Whether to go on.
bool OnKey(char key, TopView& view) {
  if (key == 's') {
    view.order = NextOrder(view.order);
  } else if (key == 'p') {
    view.is_paused = !view.is_paused;
  }
  return key != 'q';
}

absl::Status FillScreen(const TopFlags& flags, Terminal& terminal) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, ConnectTo(flags.server));
  const absl::Duration interval = *ParseDuration(flags.interval);
  Top top(*client, flags);
  absl::Time next_look = absl::InfinitePast();
  bool goes_on = true;
  while (goes_on) {
    if (absl::Now() >= next_look && !top.view().is_paused) {
      const bool is_first = next_look == absl::InfinitePast();
      top.LookAgain("%H:%M:%S").IgnoreError();  // the view says it
      // Something to see soon.
      next_look = absl::Now() + (is_first ? std::min(interval, absl::Milliseconds(300)) : interval);
    }
    const Terminal::Size size = terminal.size();
    goes_on = terminal.Show(TopText(top.view(), {.width = size.width,
                                                 .height = size.height,
                                                 .is_screen = true,
                                                 .has_blocks = IsUtf8Locale()}));
    const Terminal::Event event =
        terminal.Wait(top.view().is_paused ? absl::Now() + absl::Hours(1) : next_look);
    goes_on = goes_on && event.kind != Terminal::Event::Kind::kEnd &&
              (event.kind != Terminal::Event::Kind::kKey || OnKey(event.key, top.view()));
  }
  return absl::OkStatus();
}

absl::Status RunTop(const TopFlags& flags) {
  // Before the connection, whose threads must not get the signals.
  const std::unique_ptr<Terminal> terminal = flags.is_plain() ? nullptr : Terminal::Open();
  return terminal == nullptr ? PrintPlain(flags) : FillScreen(flags, *terminal);
}

void AddFlags(CLI::App& command, TopFlags& flags) {
  AddServerFlags(command, flags.server);
  HelpGroup group(command);
  AddDuration(group, "--interval", flags.interval, "Time between updates; at least 50ms")
      ->check([](const std::string& text) {
        return *ParseDuration(text) >= absl::Milliseconds(50) ? "" : "expected at least 50ms";
      });
  group
      .Choice("--sort", flags.order, "rate|time|failures|name",
              "Sort models by requests a second, mean time, failures or name")
      ->capture_default_str();
  CLI::Option* const count =
      group.Value("--count", flags.count, "N", "Print this many updates as text, then exit");
  count->check(CLI::PositiveNumber.description(""));
  group.Switch("--once", flags.once, "Print one update as text, then exit")->excludes(count);
  group.Switch("--json", flags.json, "Print a JSON object a line, one for each update");
}

}  // namespace

void AddTopCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<TopFlags>();
  flags->server.timeout = "2s";  // keys wait for an answer
  CLI::App* const command =
      app.add_subcommand("top", "Watch the server: rates, times, batches, queue and models");
  AddFlags(*command, *flags);
  command->footer(kTopExamples);
  command->callback([flags, &exit_code] {
    if (const absl::Status status = RunTop(*flags); !status.ok()) {
      exit_code = Fail(status);
    }
  });
}

}  // namespace attention
