#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/load_result.h"
#include "client/load/report.h"

namespace attention {
namespace {

/// The columns of a line, and its values.
using Cells = std::vector<std::pair<const char*, std::string>>;

std::string Microseconds(double nanoseconds) { return absl::StrFormat("%.0f", nanoseconds / 1e3); }

std::string PercentileText(const Histogram& nanoseconds, double percent) {
  return nanoseconds.IsEnoughFor(percent)
             ? Microseconds(static_cast<double>(nanoseconds.Percentile(percent)))
             : "";
}

std::string MeanText(const Histogram& nanoseconds) {
  return nanoseconds.count() == 0 ? "" : Microseconds(nanoseconds.mean());
}

/// The columns, and what stands in them on the line of `level`.
Cells CellsOf(const BenchLevel& level) {
  const LoadResult& result = level.result;
  const LoadRates rates = RatesOf(result);
  const bool is_open = level.options.open_loop.has_value();
  const auto rate = [](double per_s) { return absl::StrFormat("%.3f", per_s); };
  const Histogram& latency = result.latency_ns;
  const double wire_ns = result.phases.receive_ns.mean() + result.phases.return_ns.mean();
  return {
      {"Concurrency", is_open ? "" : absl::StrCat(level.options.concurrency)},
      {"Request Rate", is_open ? LevelText(level.options) : ""},
      {"Inferences/Second", rate(rates.requests_per_s)},
      {"Client Send", is_open ? MeanText(result.pace->lag_ns) : ""},
      {"Network+Server Send/Recv", result.accounts == 0 ? "" : Microseconds(wire_ns)},
      {"Server Queue", MeanText(result.phases.queue_ns)},
      {"Server Compute Infer", MeanText(result.phases.compute_ns)},
      {"p50 latency", PercentileText(latency, 50)},
      {"p90 latency", PercentileText(latency, 90)},
      {"p95 latency", PercentileText(latency, 95)},
      {"p99 latency", PercentileText(latency, 99)},
      {"Avg latency", MeanText(latency)},
      {"p99.9 latency", PercentileText(latency, 99.9)},
      {"p99.99 latency", PercentileText(latency, 99.99)},
      {"Max latency", latency.count() == 0 ? "" : Microseconds(static_cast<double>(latency.max()))},
      {"Offered/Second", is_open ? rate(rates.offered_per_s) : ""},
      {"Sent/Second", is_open ? rate(rates.sent_per_s) : ""},
      {"Tokens/Second", rate(rates.tokens_per_s)},
      {"Answers", absl::StrCat(result.answers)},
      {"Errors", absl::StrCat(NumFailuresInWindow(result.failures))},
      {"First block p50", PercentileText(result.first_message_ns, 50)},
      {"First block p99", PercentileText(result.first_message_ns, 99)},
      {"Token p50", PercentileText(result.token_ns, 50)},
      {"Token p99", PercentileText(result.token_ns, 99)},
      {"Stable",
       level.stability.is_stable.has_value() ? (*level.stability.is_stable ? "1" : "0") : ""},
      {"Met", MeetsTargets(level) ? "1" : "0"},
  };
}

/// Milliseconds, to the nanosecond.
std::string MillisecondsText(int64_t nanoseconds) {
  return absl::StrFormat("%.6f", Milliseconds(static_cast<double>(nanoseconds)));
}

/// The columns of a record; those that only answers have are empty for a failure.
Cells CellsOf(const CallRecord& record, bool is_session, const std::string& level) {
  const bool is_answer = record.code == absl::StatusCode::kOk;
  const bool has_account = record.batch_requests > 0;
  const auto number = [](bool is_known, auto value) {
    return is_known ? absl::StrCat(value) : std::string();
  };
  const auto time = [](bool is_known, int64_t ns) {
    return is_known ? MillisecondsText(ns) : std::string();
  };
  return {{"level", level},
          {"call", !is_session        ? "request"
                   : record.is_prompt ? "prompt"
                                      : "step"},
          {"code", absl::StatusCodeToString(record.code)},
          {"measured", record.is_measured ? "1" : "0"},
          {"due_ms", MillisecondsText(record.due_ns)},
          {"sent_late_ms", MillisecondsText(record.lag_ns)},
          {"latency_ms", MillisecondsText(record.latency_ns)},
          {"first_block_ms", time(record.first_message_ns > 0, record.first_message_ns)},
          {"tokens", number(is_answer, record.tokens)},
          {"request_bytes", number(is_answer && !record.is_prompt, record.request_bytes)},
          {"answer_bytes", number(is_answer && !record.is_prompt, record.answered_bytes)},
          {"receive_ms", time(has_account, record.receive_ns)},
          {"queue_ms", time(has_account, record.queue_ns)},
          {"compute_ms", time(has_account, record.compute_ns)},
          {"batch", number(has_account, record.batch_id)},
          {"batch_requests", number(has_account, record.batch_requests)}};
}

std::string NamesLine(const Cells& cells) {
  return absl::StrJoin(cells, ",",
                       [](std::string* out, const auto& cell) { out->append(cell.first); }) +
         "\n";
}

std::string ValuesLine(const Cells& cells) {
  return absl::StrJoin(cells, ",",
                       [](std::string* out, const auto& cell) { out->append(cell.second); }) +
         "\n";
}

}  // namespace

std::string RecordsCsv(const BenchReport& report) {
  const bool is_session = report.subject.decode.has_value();
  std::string text = NamesLine(CellsOf(CallRecord(), is_session, ""));
  for (const BenchLevel& level : report.levels) {
    for (const CallRecord& record : level.result.records) {
      text += ValuesLine(CellsOf(record, is_session, LevelText(level.options)));
    }
  }
  return text;
}

std::string ToCsv(const BenchReport& report) {
  std::string text;
  for (const BenchLevel& level : report.levels) {
    const Cells cells = CellsOf(level);
    absl::StrAppend(&text, text.empty() ? NamesLine(cells) : "", ValuesLine(cells));
  }
  return text;
}

}  // namespace attention
