#include "server/observability/telemetry.h"

#include "absl/strings/str_cat.h"
#include "server/observability/header_file.h"
#include "server/observability/process_usage.h"

namespace attention {
namespace {

constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

absl::Status OfFlag(const char* flag, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(flag, ": ", std::string(status.message())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpanExporter>> StartTraces(const SpanExporterOptions& options) {
  if (options.endpoint.empty()) {
    return nullptr;
  }
  if (!options.header_file.empty()) {
    if (const auto headers = ReadHeaderFile(options.header_file); !headers.ok()) {
      return OfFlag("--otlp-headers", headers.status());
    }
  }
  auto exporter = SpanExporter::Create(options);
  return exporter.ok() ? std::move(exporter) : OfFlag("--otlp-endpoint", exporter.status());
}

absl::StatusOr<std::unique_ptr<HttpListener>> ServeMetrics(const std::string& address,
                                                           const MetricsSources& sources) {
  if (address.empty()) {
    return nullptr;
  }
  ReadProcessUsage();  // opens its files now, when there are descriptors for them
  const auto body = [sources] { return WriteMetrics(sources); };
  auto listener = HttpListener::Start(address, {{"/metrics", {kContentType, body}}});
  return listener.ok() ? std::move(listener) : OfFlag("--metrics-listen", listener.status());
}

}  // namespace attention
