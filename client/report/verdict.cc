#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/load/report_parts.h"
#include "client/page/escape.h"
#include "client/report/curves.h"
#include "client/report/summary.h"

namespace attention {
namespace {

enum class Kind { kGood, kWarning, kBad, kUnknown };

/// Verdicts on the levels of a report; what is true of several is said once.
class Verdicts {
 public:
  explicit Verdicts(const BenchReport& report) : num_levels_(report.levels.size()) {}

  void Add(Kind kind, const std::string& text) { entries_.push_back({kind, text, {}}); }
  void Add(const BenchLevel& level, Kind kind, const std::string& text) {
    for (Entry& entry : entries_) {
      if (entry.kind == kind && entry.text == text) {
        entry.levels.push_back(LevelName(level));
        return;
      }
    }
    entries_.push_back({kind, text, {LevelName(level)}});
  }

  /// Of one level numbers are part of its verdicts; of several they stand in the table.
  bool has_room_for_numbers() const { return num_levels_ == 1; }

  std::string Html() const {
    static constexpr const char* kClasses[] = {"good", "warning", "bad", "unknown"};
    std::string html = "<ul class=\"verdicts\">\n";
    for (const Entry& entry : entries_) {
      absl::StrAppend(&html, "<li class=\"", kClasses[static_cast<int>(entry.kind)], "\"><bdi>",
                      EscapeHtml(absl::StrCat(PrefixOf(entry), entry.text)), "</bdi></li>\n");
    }
    return absl::StrCat(html, "</ul>\n");
  }

 private:
  struct Entry {
    Kind kind;
    std::string text;
    std::vector<std::string> levels;
  };

  std::string PrefixOf(const Entry& entry) const {
    if (num_levels_ == 1 || entry.levels.empty()) {
      return "";
    }
    return absl::StrCat(
        entry.levels.size() == num_levels_ ? "all levels" : absl::StrJoin(entry.levels, ", "),
        ": ");
  }

  size_t num_levels_;
  std::vector<Entry> entries_;
};

void AddTargets(const BenchReport& report, Verdicts& verdicts) {
  if (report.search.has_value()) {
    verdicts.Add(report.search->highest_met.has_value() ? Kind::kGood : Kind::kBad,
                 SearchText(report));
    return;
  }
  for (const BenchLevel& level : report.levels) {
    for (const SloCheck& check : level.slo) {
      verdicts.Add(
          level, check.is_met ? Kind::kGood : Kind::kBad,
          verdicts.has_room_for_numbers()
              ? absl::StrCat("target ", SloText(check))
              : absl::StrCat("target ", check.target.text, check.is_met ? " met" : " MISSED"));
    }
  }
  if (report.slo.empty()) {
    verdicts.Add(Kind::kUnknown, "no target was set (--slo)");
  }
}

void AddFailures(const BenchReport& report, Verdicts& verdicts) {
  for (const BenchLevel& level : report.levels) {
    const LoadResult& result = level.result;
    for (const auto& [code, failure] : result.failures) {
      verdicts.Add(level, Kind::kBad,
                   absl::StrCat(failure.count, " x ", code, ": ", failure.first_text));
    }
    if (result.failures.empty()) {
      verdicts.Add(level, Kind::kGood, "no request failed");
    }
    if (result.answers == 0) {
      verdicts.Add(level, Kind::kBad, "no request was answered");
    }
    if (result.gave_up) {
      verdicts.Add(level, Kind::kBad, "ended early, because nothing but errors came");
    }
    if (result.was_stopped) {
      verdicts.Add(level, Kind::kWarning, "ended early, by hand");
    }
  }
}

void AddChecks(const BenchReport& report, Verdicts& verdicts) {
  for (const BenchLevel& level : report.levels) {
    if (level.verification.has_value()) {
      verdicts.Add(level, level.verification->agreed() ? Kind::kGood : Kind::kBad,
                   absl::StrCat("answers: ", VerificationText(*level.verification)));
    } else {
      verdicts.Add(level, Kind::kUnknown, "answers were not checked");
    }
  }
}

std::string VariationText(const Stability& stability) {
  return absl::StrFormat("throughput varies by %.1f%%, latency by %.1f%% over %d parts of %s",
                         100.0 * stability.throughput_cv, 100.0 * stability.latency_cv,
                         stability.windows.size(), absl::FormatDuration(stability.window));
}

void AddStability(const BenchReport& report, Verdicts& verdicts) {
  for (const BenchLevel& level : report.levels) {
    const Stability& stability = level.stability;
    const std::string numbers = verdicts.has_room_for_numbers() && stability.windows.size() > 1
                                    ? ": " + VariationText(stability)
                                    : "";
    if (!level.options.stability.has_value()) {
      verdicts.Add(level, Kind::kUnknown,
                   "whether it settled was not asked (--stability-percentage)" + numbers);
    } else if (stability.is_stable.value_or(false)) {
      verdicts.Add(level, Kind::kGood, "stable" + numbers);
    } else {
      verdicts.Add(level, level.options.stability->is_required ? Kind::kBad : Kind::kWarning,
                   "not stable" + numbers);
    }
  }
}

void AddClient(const BenchReport& report, Verdicts& verdicts) {
  for (const BenchLevel& level : report.levels) {
    const std::string warning = ClientWarning(level);
    verdicts.Add(level, warning.empty() ? Kind::kGood : Kind::kWarning,
                 absl::StrCat(warning.empty() ? "the client was not the limit" : warning,
                              verdicts.has_room_for_numbers()
                                  ? absl::StrFormat(": %.0f%% of one core",
                                                    100.0 * level.result.client_cpu_share)
                                  : ""));
  }
}

}  // namespace

std::string VerdictHtml(const BenchReport& report) {
  Verdicts verdicts(report);
  AddTargets(report, verdicts);
  AddFailures(report, verdicts);
  AddChecks(report, verdicts);
  AddStability(report, verdicts);
  AddClient(report, verdicts);
  return verdicts.Html();
}

}  // namespace attention
