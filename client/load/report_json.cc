#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/load/report.h"
#include "client/load/report_fields.h"
#include "client/load/report_parts.h"

namespace attention {
namespace {

using Json = nlohmann::json;

/// Reading throws nlohmann::json::exception, or this; ReadReport makes a status of it.
class Wrong : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) {
    throw Wrong(std::string(value.status().message()));
  }
  return *std::move(value);
}

constexpr std::pair<Arrivals, const char*> kArrivals[] = {{Arrivals::kConstant, "constant"},
                                                          {Arrivals::kPoisson, "poisson"}};

class Writer {
 public:
  void operator()(const char* key, const auto& value) { json[key] = Written(value); }
  template <typename T>
  bool Has(const char*, const std::optional<T>& value) {
    return value.has_value();
  }
  template <typename T>
  void IfAny(const char* key, const std::optional<T>& value) {
    if (value.has_value()) {
      (*this)(key, *value);
    }
  }
  void IfAny(const char* key, const Histogram& values) {
    if (values.count() > 0) {
      (*this)(key, values);
    }
  }
  void IfAny(const char* key, const std::string& text) {
    if (!text.empty()) {
      (*this)(key, text);
    }
  }
  void IfAny(const char* key, const std::shared_ptr<const ArrivalTrace>& trace) {
    if (trace != nullptr) {
      (*this)(key, trace->path);
    }
  }
  void AllOf(const Failures& failures) {
    json["errors"] = json["error_texts"] = json["error_latency_ms"] = Json::object();
    for (const auto& [code, failure] : failures) {
      json["errors"][code] = failure.count;
      json["error_texts"][code] = failure.first_text;
      if (failure.latency_ns.count() > 0) {
        json["error_latency_ms"][code] = LatencyJson(failure.latency_ns);
      }
    }
  }

  static Json Written(const auto& value) {
    if constexpr (requires(Writer& io) { Fields::Visit(io, value); }) {
      Writer io;
      Fields::Visit(io, value);
      return std::move(io.json);
    } else {
      return value;
    }
  }
  static Json Written(absl::Duration duration) {
    return duration == absl::InfiniteDuration() ? Json() : Json(absl::ToDoubleSeconds(duration));
  }
  static Json Written(absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); }
  static Json Written(const Histogram& nanoseconds) { return LatencyJson(nanoseconds); }
  static Json Written(const TimeSeries& series) {
    return {{"slice_s", absl::ToDoubleSeconds(series.slice())},
            {"slices", Written(series.slices())}};
  }
  static Json Written(const SloTarget& target) { return target.text; }
  static Json Written(v1::DataType dtype) { return v1::DataType_Name(dtype); }
  static Json Written(Arrivals arrivals) { return kArrivals[static_cast<int>(arrivals)].second; }
  template <typename T>
  static Json Written(const std::optional<T>& value) {
    return value.has_value() ? Written(*value) : Json();
  }
  template <typename T>
  static Json Written(const std::vector<T>& values) {
    Json json = Json::array();
    for (const T& value : values) {
      json.push_back(Written(value));
    }
    return json;
  }

  Json json = Json::object();
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  void operator()(const char* key, auto& value) { Read(json_.at(key), value); }
  template <typename T>
  bool Has(const char* key, std::optional<T>& value) {
    if (json_.contains(key)) {
      value.emplace();
    }
    return value.has_value();
  }
  void IfAny(const char* key, auto& value) {
    if (json_.contains(key)) {
      Read(json_.at(key), value);
    }
  }
  void AllOf(Failures& failures) {
    for (const auto& [code, count] : json_.at("errors").items()) {
      failures[code] = {
          .count = count, .first_text = json_.at("error_texts").at(code), .latency_ns = {}};
      Reader(json_.at("error_latency_ms")).IfAny(code.c_str(), failures[code].latency_ns);
    }
  }

  static void Read(const Json& json, auto& value) {
    if constexpr (requires(Reader& io) { Fields::Visit(io, value); }) {
      Reader io(json);
      Fields::Visit(io, value);
    } else {
      json.get_to(value);
    }
  }

 private:
  static void Read(const Json& json, absl::Duration& duration) {
    duration = json.is_null() ? absl::InfiniteDuration() : absl::Seconds(json.get<double>());
  }
  static void Read(const Json& json, absl::Time& time) {
    std::string error;
    if (!absl::ParseTime(absl::RFC3339_full, json.get<std::string>(), &time, &error)) {
      throw Wrong(absl::StrCat("started: ", error));
    }
  }
  static void Read(const Json& json, Histogram& values) {
    const auto nanoseconds = [&json](const char* key) { return json.at(key).get<double>() * 1e6; };
    values = OrThrow(Histogram::FromCounts(json.at("histogram").get<std::string>(),
                                           std::llround(nanoseconds("min")),
                                           std::llround(nanoseconds("max")), nanoseconds("mean")));
  }
  static void Read(const Json& json, TimeSeries& series) {
    const double slice_s = json.at("slice_s");
    const Json& slices = json.at("slices");
    if (!(slice_s > 0.0) || slices.size() > TimeSeries::kMaxSlices) {
      throw Wrong(absl::StrCat("series: expected at most ", TimeSeries::kMaxSlices,
                               " slices that last, found ", slices.size(), " of ", slice_s, " s"));
    }
    series = TimeSeries(absl::Seconds(slice_s));
    for (size_t i = 0; i < slices.size(); ++i) {
      // The middle, so that no rounding makes it the one before.
      Read(slices[i], series.At(series.slice() * (static_cast<double>(i) + 0.5)));
    }
  }
  static void Read(const Json& json, SloTarget& target) { target = OrThrow(ParseSlo(json)); }
  static void Read(const Json& json, v1::DataType& dtype) {
    if (!v1::DataType_Parse(json.get<std::string>(), &dtype)) {
      throw Wrong("decode.cache_dtype: expected the name of a dtype");
    }
  }
  static void Read(const Json& json, Arrivals& arrivals) {
    arrivals = json == "poisson" ? Arrivals::kPoisson : Arrivals::kConstant;
  }
  static void Read(const Json& json, std::shared_ptr<const ArrivalTrace>& trace) {
    trace = std::make_shared<const ArrivalTrace>(
        ArrivalTrace{.path = json, .times = {}, .kinds = {}, .lengths = {}});
  }
  template <typename T>
  static void Read(const Json& json, std::optional<T>& value) {
    if (json.is_null()) {
      value.reset();
    } else {
      Read(json, value.emplace());
    }
  }
  template <typename T>
  static void Read(const Json& json, std::vector<T>& values) {
    for (const Json& value : json) {
      Read(value, values.emplace_back());
    }
  }

  const Json& json_;
};

/// With what follows from the rest, for whoever reads the JSON.
Json LevelJson(const BenchLevel& level) {
  Json json = Writer::Written(level);
  const LoadRates rates = RatesOf(level.result);
  json.update({{"met", MeetsTargets(level)},
               {"client_warning", ClientWarning(level)},
               {"requests_per_s", rates.requests_per_s},
               {"tokens_per_s", rates.tokens_per_s},
               {"gigabytes_per_s", rates.gigabytes_per_s},
               {"prefill_tokens_per_s", rates.prefill_tokens_per_s},
               {"requests_per_batch", rates.requests_per_batch}});
  if (level.result.pace.has_value()) {
    json.update({{"offered_per_s", rates.offered_per_s},
                 {"sent_per_s", rates.sent_per_s},
                 {"goodput_per_s", rates.requests_per_s}});
  }
  if (level.verification.has_value()) {
    json["verification"]["agreed"] = level.verification->agreed();
  }
  Writer options;
  Fields::VisitLevel(options, level.options);
  json["options"] = std::move(options.json);
  return json;
}

/// `common`: the options of all levels.
BenchLevel LevelOf(const Json& json, Json common) {
  common.update(json.at("options"));
  BenchLevel level;
  Reader::Read(common, level.options);
  Reader options(common);
  Fields::VisitLevel(options, level.options);
  if (level.options.open_loop.has_value()) {
    level.options.open_loop->arrivals.seed = level.options.seed;
  }
  Reader::Read(json, level);
  return level;
}

BenchReport ReportOf(const Json& json) {
  if (json.value("format", "") != kReportFormat) {
    throw Wrong(absl::StrCat("expected the format \"", kReportFormat, "\", found \"",
                             json.value("format", ""), "\""));
  }
  BenchReport report;
  Reader::Read(json, report);
  Reader::Read(json.at("options"), report.subject);
  for (const Json& level : json.contains("levels") ? json.at("levels") : Json::array({json})) {
    report.levels.push_back(LevelOf(level, json.at("options")));
  }
  if (report.levels.empty()) {
    throw Wrong("expected at least one level, found none");
  }
  for (const SloCheck& check : report.levels.front().slo) {
    report.slo.push_back(check.target);
  }
  return report;
}

}  // namespace

Json ToJson(const BenchReport& report) {
  Json json = Writer::Written(report);
  json["format"] = kReportFormat;
  json["succeeded"] = Succeeded(report);
  json["options"] = Writer::Written(report.subject);
  json["options"].update(Writer::Written(report.levels.front().options));
  if (report.levels.size() > 1 || report.search.has_value()) {
    for (const BenchLevel& level : report.levels) {
      json["levels"].push_back(LevelJson(level));
    }
    return json;
  }
  Json only = LevelJson(report.levels.front());
  json["options"].update(only["options"]);
  only.erase("options");
  json.update(only);
  return json;
}

absl::StatusOr<BenchReport> ReadReport(const Json& json) {
  const auto wrong = [](const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a result of attend bench: ", error.what()));
  };
  try {
    return ReportOf(json);
  } catch (const Json::exception& error) {
    return wrong(error);
  } catch (const Wrong& error) {
    return wrong(error);
  }
}

}  // namespace attention
