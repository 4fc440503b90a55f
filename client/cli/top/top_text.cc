#include "client/cli/top/top_text.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/cli/show/text_table.h"
#include "client/page/escape.h"
#include "client/plot/token_text.h"

namespace attention {
namespace {

/// `value` with three digits: "0.12", "12.3", "1234"; "-" if absent.
std::string NumberText(std::optional<double> value) {
  if (!value.has_value()) {
    return "-";
  }
  const double size = std::abs(*value);
  const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f", decimals, *value);
}

std::string ThreadsText(const TopView& view) {
  const TopRates& rates = view.rates;
  std::string text =
      absl::StrFormat("%d, busy %.0f %%", view.statistics.threads(), 100 * rates.busy_share);
  if (view.statistics.cpu_ns() > 0) {
    absl::StrAppend(&text, "   ", NumberText(rates.cores), " cores");
  }
  if (rates.throttled_cores > 0) {
    absl::StrAppend(&text, ", throttled ", NumberText(rates.throttled_cores));
  }
  return text;
}

/// The labels, and the text beside each.
std::vector<std::pair<const char*, std::string>> FactsOf(const TopView& view) {
  const v1::ServerStatistics& now = view.statistics;
  const TopRates& rates = view.rates;
  const AnswerTimes& times = rates.times;
  return {
      {"requests", absl::StrCat(NumberText(rates.answered_per_s), "/s   refused ",
                                NumberText(rates.refused_per_s), "/s   failed ",
                                NumberText(rates.failed_per_s), "/s")},
      {"latency",
       absl::StrCat("mean ", NumberText(times.total_ms()), "   receive ",
                    NumberText(times.receive_ms), "   queue ", NumberText(times.queue_ms),
                    "   compute ", NumberText(times.compute_ms), "   send ",
                    NumberText(times.send_ms), " ms")},
      {"batches",
       absl::StrCat(NumberText(rates.batches_per_s), "/s   of ", NumberText(rates.batch_requests),
                    " requests, ", NumberText(rates.batch_tokens), " tokens   ",
                    NumberText(rates.tokens_per_s), " tokens/s")},
      {"threads", ThreadsText(view)},
      {"queue", absl::StrCat(now.waiting_requests(), " requests   ", Mebibytes(now.waiting_bytes()),
                             "   ", NumberText(now.waiting_ns() / 1e9), " s of work   ",
                             now.running_requests(), " running")},
      {"sessions",
       absl::StrCat(now.sessions(), "   ", now.parked_sessions(), " to be resumed   cache ",
                    Mebibytes(now.cache_bytes()), " of ", Mebibytes(now.max_cache_bytes()))},
      {"memory",
       absl::StrCat(Mebibytes(now.resident_bytes()), "   in ",
                    Mebibytes(static_cast<int64_t>(rates.received_bytes_per_s)), "/s   out ",
                    Mebibytes(static_cast<int64_t>(rates.sent_bytes_per_s)), "/s")},
      {"so far", absl::StrCat(now.succeeded(), " answered   ", now.refused(), " refused   ",
                              now.failed(), " failed")}};
}

std::string ModelsTable(std::vector<ModelRates> models) {
  std::stable_sort(models.begin(), models.end(), [](const ModelRates& a, const ModelRates& b) {
    return a.answered_per_s > b.answered_per_s;
  });
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "VER", "REQ/S", "FAILED/S", "MEAN ms", "QUEUE ms", "TOKENS/S", "ANSWERED"}};
  for (const ModelRates& model : models) {
    rows.push_back({model.name.empty() ? "(none)" : Printable(model.name),
                    model.version == 0 ? "-" : absl::StrCat(model.version),
                    NumberText(model.answered_per_s),
                    NumberText(model.refused_per_s + model.failed_per_s),
                    NumberText(model.times.total_ms()), NumberText(model.times.queue_ms),
                    NumberText(model.tokens_per_s), absl::StrCat(model.answered)});
  }
  return TextTable(rows);
}

}  // namespace

std::string TopText(const TopView& view) {
  const absl::Duration uptime = absl::Nanoseconds(view.statistics.uptime_ns());
  std::string text = absl::StrCat(
      "attend top  ", Printable(view.server), "  ", Printable(view.statistics.version()), "  up ",
      absl::FormatDuration(absl::Floor(uptime, absl::Seconds(1))), "  ", view.time, "\n\n");
  for (const auto& [label, fact] : FactsOf(view)) {
    absl::StrAppendFormat(&text, "%-10s %s\n", label, fact);
  }
  return absl::StrCat(text, "\n", ModelsTable(view.rates.models));
}

std::string FitTo(const TerminalSize& size, const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.resize(std::min<size_t>(lines.size(), std::max<int64_t>(1, size.rows - 1)));
  for (std::string& line : lines) {
    line = CutTo(line, size.columns);
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace attention
