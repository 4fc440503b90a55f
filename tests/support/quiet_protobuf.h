// Protobuf without its log.
#pragma once

#if __has_include(<google/protobuf/stubs/logging.h>)
#include <google/protobuf/stubs/logging.h>
#else  // protobuf since 22 logs through Abseil
#include "absl/log/globals.h"
#endif

namespace attention {

/// Keeps protobuf from logging malformed messages, while it exists.
class QuietProtobuf {
#if __has_include(<google/protobuf/stubs/logging.h>)
  google::protobuf::LogSilencer silencer_;
#else
  absl::ScopedStderrThreshold threshold_{absl::LogSeverityAtLeast::kInfinity};
#endif
};

}  // namespace attention
