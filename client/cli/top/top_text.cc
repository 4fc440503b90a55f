#include "client/cli/top/top_text.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/cli/show/text_table.h"
#include "client/plot/token_text.h"
#include "core/runtime/counted.h"
#include "core/runtime/flag_text.h"

namespace attention {
namespace {

using google::protobuf::FieldDescriptor;

template <typename Message>
void Subtract(const Message& before, Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < Message::descriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = Message::descriptor()->field(i);
    if (!field->is_repeated() && field->cpp_type() == FieldDescriptor::CPPTYPE_INT64 &&
        field->name() != "version") {
      reflection.SetInt64(&message, field,
                          reflection.GetInt64(message, field) - reflection.GetInt64(before, field));
    }
  }
}

/// Returns `value` with three digits: "0.12", "12.3", "1234"; "-" if absent.
std::string NumberText(std::optional<double> value) {
  if (!value.has_value()) {
    return "-";
  }
  const double size = std::abs(*value);
  const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f", decimals, *value);
}

/// Returns `count` a second, over the time of `change`.
double PerSecond(double count, const v1::ServerStatistics& change) {
  return count * 1e9 / std::max<double>(1, static_cast<double>(change.uptime_ns()));
}

std::string MeanText(double sum, int64_t count) {
  return NumberText(count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt);
}

/// The mean time, in milliseconds, of the requests that `change` counts, of a server or a model.
template <typename Statistics>
std::string MeanMsText(int64_t sum_ns, const Statistics& change) {
  return MeanText(static_cast<double>(sum_ns) / 1e6, change.succeeded());
}

template <typename Statistics>
int64_t TotalNs(const Statistics& change) {
  return change.receive_ns() + change.queue_ns() + change.compute_ns() + change.send_ns();
}

std::string ThreadsText(const TopView& view) {
  const v1::ServerStatistics& change = view.change;
  // Nanoseconds of work a second are shares of a core.
  const double busy = PerSecond(static_cast<double>(change.busy_ns()) / 1e9, change);
  std::string text = absl::StrFormat("%d, busy %.0f %%", view.statistics.threads(),
                                     100 * std::clamp(busy, 0.0, 1.0));
  if (view.statistics.cpu_ns() > 0) {
    absl::StrAppend(&text, "   ", NumberText(PerSecond(change.cpu_ns() / 1e9, change)), " cores");
  }
  if (change.throttled_ns() > 0) {
    absl::StrAppend(&text, ", throttled ",
                    NumberText(PerSecond(change.throttled_ns() / 1e9, change)));
  }
  return text;
}

/// The labels, and the text beside each.
std::vector<std::pair<const char*, std::string>> FactsOf(const TopView& view) {
  const v1::ServerStatistics& now = view.statistics;
  const v1::ServerStatistics& change = view.change;
  const auto rate = [&](int64_t count) { return NumberText(PerSecond(count, change)) + "/s"; };
  const auto mebibytes = [&](int64_t bytes) {
    return Mebibytes(static_cast<int64_t>(PerSecond(bytes, change))) + "/s";
  };
  return {
      {"requests", absl::StrCat(rate(change.succeeded()), "   refused ", rate(change.refused()),
                                "   failed ", rate(change.failed()))},
      {"latency", absl::StrCat("mean ", MeanMsText(TotalNs(change), change), "   receive ",
                               MeanMsText(change.receive_ns(), change), "   queue ",
                               MeanMsText(change.queue_ns(), change), "   compute ",
                               MeanMsText(change.compute_ns(), change), "   send ",
                               MeanMsText(change.send_ns(), change), " ms")},
      {"batches", absl::StrCat(rate(change.batches()), "   of ",
                               MeanText(change.batch_requests(), change.batches()), " requests, ",
                               MeanText(change.batch_tokens(), change.batches()), " tokens   ",
                               NumberText(PerSecond(change.batch_tokens(), change)), " tokens/s")},
      {"threads", ThreadsText(view)},
      {"queue",
       absl::StrCat(Counted(now.waiting_requests(), "request"), "   ",
                    Mebibytes(now.waiting_bytes()), "   ", NumberText(now.waiting_ns() / 1e9),
                    " s of work   ", now.running_requests(), " running")},
      {"sessions",
       absl::StrCat(now.sessions(), "   ", now.parked_sessions(), " to be resumed   cache ",
                    Mebibytes(now.cache_bytes()), " of ", Mebibytes(now.max_cache_bytes()))},
      {"memory",
       absl::StrCat(Mebibytes(now.resident_bytes()), "   in ", mebibytes(change.received_bytes()),
                    "   out ", mebibytes(change.sent_bytes()))},
      {"so far", absl::StrCat(now.succeeded(), " answered   ", now.refused(), " refused   ",
                              now.failed(), " failed")}};
}

/// A longer name would move the numbers of all models off the terminal.
constexpr int64_t kNameColumns = 40;

std::string ModelsTable(const TopView& view) {
  const auto& changes = view.change.models();
  std::vector<int> order(changes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return changes[a].succeeded() > changes[b].succeeded(); });
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "VER", "REQ/S", "FAILED/S", "MEAN ms", "QUEUE ms", "TOKENS/S", "ANSWERED"}};
  for (const int i : order) {
    const v1::ModelStatistics& model = changes[i];
    rows.push_back(
        {model.model().empty() ? "(none)" : CutTo(ShownLine(model.model()), kNameColumns),
         model.version() == 0 ? "-" : absl::StrCat(model.version()),
         NumberText(PerSecond(model.succeeded(), view.change)),
         NumberText(PerSecond(model.refused() + model.failed(), view.change)),
         MeanMsText(TotalNs(model), model), MeanMsText(model.queue_ns(), model),
         NumberText(PerSecond(model.tokens(), view.change)),
         absl::StrCat(view.statistics.models(i).succeeded())});
  }
  return TextTable(rows);
}

}  // namespace

v1::ServerStatistics ChangeBetween(const v1::ServerStatistics& before,
                                   const v1::ServerStatistics& after, absl::Duration elapsed) {
  v1::ServerStatistics change = after;
  const absl::Duration uptime = absl::Nanoseconds(after.uptime_ns());
  if (after.uptime_ns() < before.uptime_ns() || uptime < elapsed) {
    return change;
  }
  Subtract(before, change);
  for (v1::ModelStatistics& model : *change.mutable_models()) {
    for (const v1::ModelStatistics& old : before.models()) {
      if (old.model() == model.model() && old.version() == model.version()) {
        Subtract(old, model);
      }
    }
  }
  return change;
}

std::string TopText(const TopView& view) {
  const absl::Duration uptime = absl::Nanoseconds(view.statistics.uptime_ns());
  std::string text = absl::StrCat(
      "attend top  ", ShownLine(view.server), "  ", ShownLine(view.statistics.version()), "  up ",
      absl::FormatDuration(absl::Floor(uptime, absl::Seconds(1))), "  ", view.time, "\n\n");
  for (const auto& [label, fact] : FactsOf(view)) {
    absl::StrAppendFormat(&text, "%-10s %s\n", label, fact);
  }
  return absl::StrCat(text, "\n", ModelsTable(view));
}

std::string NoAnswerText(const TopView& view, const absl::Status& status,
                         const std::optional<TerminalSize>& terminal) {
  const std::string why =
      absl::StrCat("attend top  ", view.time, "  no answer: ", ShownLine(status.message()));
  const bool is_known = view.change.uptime_ns() > 0;
  return absl::StrCat(
      terminal.has_value() ? Wrapped(why, static_cast<size_t>(terminal->columns)) : why, "\n",
      is_known ? "\nThe last answer:\n" : "", is_known ? TopText(view) : "");
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
