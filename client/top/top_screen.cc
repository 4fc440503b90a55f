#include "client/top/top_screen.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/top/screen_text.h"

namespace attention {
namespace {

constexpr int kLabelWidth = 10;
constexpr int kTextWidth = 58;  // beside the history
constexpr int kMinHistoryWidth = 12;
constexpr char kKeys[] = "q quit   p pause   s sort";

std::string NameOf(const ModelRates& model) {
  return model.name.empty() ? "(no model)" : ForTerminal(model.name);
}

class Screen {
 public:
  Screen(const TopView& view, const TopLayout& layout) : view_(view), layout_(layout) {}

  std::vector<std::string> Draw() {
    Head();
    Traffic();
    State();
    Line("");
    Models();
    if (layout_.is_screen) {
      Styled("2", absl::StrCat(kKeys, " (by ", Name(view_.order), ")"));
    }
    return std::move(lines_);
  }

 private:
  int num_lines() const { return static_cast<int>(lines_.size()); }

  void Line(const std::string& line) { lines_.push_back(Cut(line, layout_.width)); }

  /// The whole line in a style of ECMA-48's SGR.
  void Styled(const char* style, const std::string& line) {
    if (!layout_.is_screen) {
      Line(line);
      return;
    }
    lines_.push_back(absl::StrCat("\x1b[", style, "m", PadRight(line, layout_.width), "\x1b[0m"));
  }

  /// A label, what it is now, and (where there is room) how it was.
  void Labelled(const char* label, const std::string& value, const std::string& history = "") {
    const std::string line = absl::StrCat(PadRight(label, kLabelWidth), value);
    Line(history.empty() || Columns(line) > kTextWidth
             ? line
             : absl::StrCat(PadRight(line, kTextWidth), history));
  }

  std::string History(double TopPoint::* member, double largest) const {
    const int width = layout_.width - kTextWidth;
    if (width < kMinHistoryWidth) {
      return "";
    }
    std::deque<double> values;
    for (const TopPoint& point : view_.history) {
      values.push_back(point.*member);
    }
    return Sparkline(values, width, largest, layout_.has_blocks);
  }

  void Head() {
    const std::string left = absl::StrCat(
        view_.is_paused ? "PAUSED  " : "", "attend top  ", ForTerminal(view_.server), "  ",
        ForTerminal(view_.statistics.version()), "  up ", UptimeText(view_.statistics.uptime_ns()));
    const int room = layout_.width - Columns(view_.time) - 1;
    Styled("7", room < 20 ? left : absl::StrCat(PadRight(left, room), " ", view_.time));
    if (!view_.trouble.empty()) {
      Styled("1;31", absl::StrCat("no answer: ", ForTerminal(view_.trouble)));
    } else {
      Line("");
    }
  }

  void Traffic() {
    const TopRates& rates = view_.rates;
    Labelled("requests",
             absl::StrFormat("%s/s   refused %s/s   failed %s/s", NumberText(rates.answered_per_s),
                             NumberText(rates.refused_per_s), NumberText(rates.failed_per_s)),
             History(&TopPoint::answered_per_s, 0));
    const AnswerTimes& times = rates.times;
    Labelled("latency",
             absl::StrFormat("mean %s   p50 %s   p99 %s ms", NumberText(times.total_ms()),
                             NumberText(times.p50_ms), NumberText(times.p99_ms)),
             History(&TopPoint::total_ms, 0));
    Labelled("  phases", absl::StrFormat("receive %s   queue %s   compute %s   send %s ms",
                                         NumberText(times.receive_ms), NumberText(times.queue_ms),
                                         NumberText(times.compute_ms), NumberText(times.send_ms)));
    Labelled("batches",
             absl::StrFormat("%s/s   of %s requests, %s tokens   %s tokens/s",
                             NumberText(rates.batches_per_s), NumberText(rates.batch_requests),
                             NumberText(rates.batch_tokens), NumberText(rates.tokens_per_s)));
    Labelled(
        "threads",
        absl::StrFormat("%d, busy %.0f %%%s%s", view_.statistics.threads(), 100 * rates.busy_share,
                        view_.statistics.cpu_ns() > 0
                            ? absl::StrFormat("   %s cores", NumberText(rates.cores))
                            : "",
                        rates.throttled_cores > 0
                            ? absl::StrFormat(", throttled %s", NumberText(rates.throttled_cores))
                            : ""),
        History(&TopPoint::busy_share, 1));
  }

  void State() {
    const v1::ServerStatistics& now = view_.statistics;
    Labelled("queue", absl::StrFormat("%d requests   %s   %s s of work   %d running",
                                      now.waiting_requests(), BytesText(now.waiting_bytes()),
                                      NumberText(now.waiting_ns() / 1e9), now.running_requests()));
    Labelled("sessions", absl::StrFormat("%d   %d to be resumed   cache %s of %s", now.sessions(),
                                         now.parked_sessions(), BytesText(now.cache_bytes()),
                                         BytesText(now.max_cache_bytes())));
    if (now.resident_bytes() > 0) {
      Labelled("memory",
               absl::StrFormat("%s   in %s/s   out %s/s", BytesText(now.resident_bytes()),
                               BytesText(static_cast<int64_t>(view_.rates.received_bytes_per_s)),
                               BytesText(static_cast<int64_t>(view_.rates.sent_bytes_per_s))));
    }
    Labelled("so far", absl::StrFormat("%d answered   %d refused   %d failed", now.succeeded(),
                                       now.refused(), now.failed()));
  }

  std::vector<ModelRates> Ordered() const {
    std::vector<ModelRates> models = view_.rates.models;
    const auto key = [this](const ModelRates& model) {
      switch (view_.order) {
        case TopOrder::kRate:
          return -model.answered_per_s;
        case TopOrder::kTime:
          return -model.times.total_ms().value_or(0);
        case TopOrder::kFailures:
          return -model.failed_per_s - model.refused_per_s;
        case TopOrder::kName:
          break;
      }
      return 0.0;
    };
    std::stable_sort(models.begin(), models.end(), [&](const ModelRates& a, const ModelRates& b) {
      return std::pair(key(a), a.name) < std::pair(key(b), b.name);
    });
    return models;
  }

  using Cells = std::array<std::string, 9>;

  static Cells CellsOf(const ModelRates& model) {
    return {NameOf(model),
            model.version == 0 ? "-" : absl::StrCat(model.version),
            NumberText(model.answered_per_s),
            NumberText(model.refused_per_s + model.failed_per_s),
            NumberText(model.times.total_ms()),
            NumberText(model.times.p99_ms),
            NumberText(model.times.queue_ms),
            NumberText(model.tokens_per_s),
            absl::StrCat(model.answered)};
  }

  /// As many cells as fit.
  std::string Row(const Cells& cells, int name_width) const {
    static constexpr std::array<int, 9> kWidths = {0, 4, 8, 8, 8, 8, 8, 8, 10};
    std::string line = PadRight(cells[0], name_width);
    for (size_t i = 1; i < cells.size(); ++i) {
      if (Columns(line) + 1 + kWidths[i] > layout_.width) {
        break;
      }
      absl::StrAppend(&line, " ", PadLeft(cells[i], kWidths[i]));
    }
    return Cut(line, layout_.width);
  }

  void Models() {
    std::vector<ModelRates> models = Ordered();
    if (layout_.height > 0) {
      const int left = layout_.height - num_lines() - 1 - (layout_.is_screen ? 1 : 0);
      models.resize(std::min(models.size(), static_cast<size_t>(std::max(0, left))));
    }
    const size_t hidden = view_.rates.models.size() - models.size();
    const std::string title = hidden == 0 ? "MODEL" : absl::StrFormat("MODEL (+%d)", hidden);
    int name_width = Columns(title);
    for (const ModelRates& model : models) {
      name_width = std::max(name_width, Columns(NameOf(model)));
    }
    name_width = std::min(name_width, std::max(12, layout_.width - 56));
    Styled("1", Row({title, "VER", "REQ/S", "FAILED/S", "MEAN ms", "P99 ms", "QUEUE ms", "TOKENS/S",
                     "ANSWERED"},
                    name_width));
    for (const ModelRates& model : models) {
      Line(Row(CellsOf(model), name_width));
    }
    while (layout_.is_screen && num_lines() + 1 < layout_.height) {
      Line("");
    }
  }

  const TopView& view_;
  const TopLayout& layout_;
  std::vector<std::string> lines_;
};

}  // namespace

TopOrder NextOrder(TopOrder order) {
  return order == TopOrder::kName ? TopOrder::kRate
                                  : static_cast<TopOrder>(static_cast<int>(order) + 1);
}

const char* Name(TopOrder order) {
  static constexpr const char* kNames[] = {"rate", "time", "failures", "name"};
  return kNames[static_cast<int>(order)];
}

std::string TopText(const TopView& view, const TopLayout& layout) {
  std::vector<std::string> lines = Screen(view, layout).Draw();
  const auto height = static_cast<size_t>(layout.height);
  if (height > 0 && lines.size() > height) {
    // The keys stay.
    const size_t last = layout.is_screen ? lines.size() - 1 : height - 1;
    lines.erase(lines.begin() + layout.height - 1, lines.begin() + static_cast<ptrdiff_t>(last));
    lines.resize(height);
  }
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

std::string Sparkline(const std::deque<double>& values, int width, double largest,
                      bool has_blocks) {
  static constexpr std::array<const char*, 9> kBlocks = {" ", "▁", "▂", "▃", "▄",
                                                         "▅", "▆", "▇", "█"};
  static constexpr std::array<const char*, 9> kAscii = {" ", ".", ":", "-", "=",
                                                        "+", "*", "#", "@"};
  const size_t shown = std::min(values.size(), static_cast<size_t>(width));
  const auto first = values.end() - static_cast<ptrdiff_t>(shown);
  if (largest <= 0 && shown > 0) {
    largest = *std::max_element(first, values.end());
  }
  std::string line(width - shown, ' ');
  for (auto value = first; value != values.end(); ++value) {
    // The least of something is seen; nothing is a space.
    const double share = largest > 0 ? std::clamp(*value / largest, 0.0, 1.0) : 0.0;
    const int level = share > 0 ? std::max(1, static_cast<int>(share * 8 + 0.5)) : 0;
    line += has_blocks ? kBlocks[level] : kAscii[level];
  }
  return line;
}

}  // namespace attention
