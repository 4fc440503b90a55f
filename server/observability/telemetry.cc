#include "server/observability/telemetry.h"

#include "absl/strings/str_cat.h"
#include "core/runtime/prefixed.h"
#include "server/observability/header_file.h"
#include "server/observability/process_usage.h"

namespace attention {
namespace {

constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

absl::StatusOr<std::unique_ptr<SpanExporter>> StartTraces(const SpanExporterOptions& options) {
  if (options.endpoint.empty()) {
    return nullptr;
  }
  if (!options.header_file.empty()) {
    if (const auto headers = ReadHeaderFile(options.header_file); !headers.ok()) {
      return Prefixed("--otlp-headers", headers.status());
    }
  }
  auto exporter = SpanExporter::Create(options);
  return exporter.ok() ? std::move(exporter) : Prefixed("--otlp-endpoint", exporter.status());
}

absl::StatusOr<std::unique_ptr<HttpListener>> ServeMetrics(const std::string& address,
                                                           const MetricsSources& sources) {
  if (address.empty()) {
    return nullptr;
  }
  ReadProcessUsage();  // opens its files now, when there are descriptors for them
  const auto body = [sources] { return WriteMetrics(sources); };
  auto listener = HttpListener::Start(address, {{"/metrics", {kContentType, body}}});
  return listener.ok() ? std::move(listener) : Prefixed("--metrics-listen", listener.status());
}

}  // namespace attention
