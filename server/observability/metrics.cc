#include "server/observability/metrics.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "core/kernels/onednn/version.h"
#include "server/log/log.h"
#include "server/observability/metrics_text.h"
#include "server/observability/process_metrics.h"
#include "server/observability/work_metrics.h"
#include "server/sockets/connection_acceptor.h"

namespace attention {
namespace {

void WriteModels(const MetricsSources& sources, MetricsText& text) {
  const std::vector<std::shared_ptr<const Model>> models = sources.models.List();
  text.Gauge("attend_models_loaded", "Served versions of models.", models.size());
  int64_t failed = 0;
  if (sources.loader != nullptr) {
    const std::vector<ModelState> states = sources.loader->States();
    failed = std::count_if(states.begin(), states.end(), [](const ModelState& state) {
      return state.phase == ModelPhase::kFailed;
    });
  }
  text.Gauge("attend_models_failed", "Versions of models whose last attempt to load failed.",
             failed);
  text.Family("attend_model_info", "gauge", "1 for each served version of a model.");
  for (const std::shared_ptr<const Model>& model : models) {
    const ModelInfo& info = model->info();
    text.Sample({{"model", info.name},
                 {"version", std::to_string(info.version)},
                 {"type", info.model_type},
                 {"weights_dtype", std::string(Name(info.weights_dtype))}},
                1);
  }
  text.Family("attend_model_memory_bytes", "gauge",
              "Memory of the weights of a version of a model.");
  for (const std::shared_ptr<const Model>& model : models) {
    const ModelInfo& info = model->info();
    text.Sample({{"model", info.name}, {"version", std::to_string(info.version)}},
                info.weights_bytes);
  }
}

void WriteCredentialFiles(const std::vector<std::pair<std::string, bool>>& files,
                          MetricsText& text) {
  if (files.empty()) {
    return;
  }
  text.Family("attend_credential_files_valid", "gauge",
              "Whether the files that a flag names can be used as they are now; if not, what was "
              "read before stays in use, and a restart would fail.");
  for (const auto& [flag, is_valid] : files) {
    text.Sample({{"flag", flag}}, is_valid ? 1 : 0);
  }
}

void WriteConnections(const MetricsSources& sources, MetricsText& text) {
  text.Gauge("attend_connections", "Open connections of clients.", sources.connections());
  text.Counter(
      "attend_connections_refused_total",
      "Connections that were closed at once because the limit was reached (--max-connections).",
      sources.refused_connections());
  text.Counter("attend_connections_turned_away_total",
               "Connections that were closed at once because too many of their host, or of all "
               "hosts, had to wait already (for the reasons of attend_connections_delayed_total).",
               ConnectionAcceptor::turned_away());
  text.Counter("attend_connections_ended_total",
               "Connections that were ended because they made more than 16 times as many calls "
               "without work in a second as a host may make.",
               ConnectionAcceptor::ended());
  text.Counter("attend_connections_delayed_total",
               "Connections that waited because their host made many calls without work, or had "
               "other connections without a call.",
               sources.delayed_connections());
  text.Counter("attend_unknown_calls_total", "Calls of methods that the listener does not have.",
               sources.unknown_calls());
}

void WriteServer(const MetricsSources& sources, MetricsText& text) {
  text.Gauge("attend_ready", "1 when health reports SERVING for the whole server.",
             sources.health.IsServing("").value_or(false) ? 1 : 0);
  text.Gauge(
      "attend_all_models_served",
      "1 when every model of --required-models (without it: every model found at the start) has "
      "served, as health reports for model/*; 0 when the server drains.",
      sources.health.IsServing(kAllModels).value_or(false) ? 1 : 0);
  text.Gauge("attend_draining", "1 from SIGTERM until the server ends.",
             sources.health.is_draining() ? 1 : 0);
  text.Gauge("attend_compute_stalled",
             "1 when requests wait and nothing was computed for --stall-timeout.",
             sources.health.is_stalled() ? 1 : 0);
  text.Counter("attend_log_lines_left_out_total",
               "Log lines that were dropped because standard error was not read in time, or could "
               "not be written.",
               LogLinesLeftOut());
  if (const std::optional<double> expiry = sources.certificate_expiry()) {
    text.Gauge("attend_certificate_expiry_timestamp_seconds",
               "Time at which the certificate for new connections expires, in seconds since the "
               "epoch.",
               *expiry);
  }
  WriteCredentialFiles(sources.credential_files(), text);
  text.Family("attend_build_info", "gauge",
              "1, with the versions of the server, its compiler and its libraries.");
  text.Sample({{"version", sources.version},
               {"compiler", __VERSION__},
               {"onednn", OneDnnVersion()},
               {"grpc", sources.grpc_version}},
              1);
}

void WriteTraces(const TraceStatistics& traces, MetricsText& text) {
  text.Counter("attend_traced_requests_total", "Requests whose spans a collector has accepted.",
               traces.exported);
  text.Counter(
      "attend_untraced_requests_total",
      "Requests whose spans were dropped because too many waited, or because the collector "
      "(--otlp-endpoint) did not accept them.",
      traces.dropped);
}

}  // namespace

std::string WriteMetrics(const MetricsSources& sources) {
  MetricsText text;
  WriteWork(sources, text);
  WriteModels(sources, text);
  WriteServer(sources, text);
  WriteConnections(sources, text);
  WriteTraces(sources.exporter == nullptr ? TraceStatistics() : sources.exporter->statistics(),
              text);
  WriteProcess(sources.executor.num_threads(), text);
  return text.text();
}

}  // namespace attention
