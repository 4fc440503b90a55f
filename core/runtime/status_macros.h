// Macros that return early with an error of an absl::Status or absl::StatusOr.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expression)                                     \
  do {                                                                  \
    if (absl::Status early_status = (expression); !early_status.ok()) { \
      return early_status;                                              \
    }                                                                   \
  } while (false)

#define ATTENTION_CONCAT_(a, b) a##b
#define ATTENTION_CONCAT(a, b) ATTENTION_CONCAT_(a, b)
#define ATTENTION_ASSIGN_OR_RETURN(result, target, expression) \
  auto result = (expression);                                  \
  if (!result.ok()) {                                          \
    return result.status();                                    \
  }                                                            \
  target = *std::move(result)

/// ASSIGN_OR_RETURN(int n, ParseNumber(text));
#define ASSIGN_OR_RETURN(target, expression) \
  ATTENTION_ASSIGN_OR_RETURN(ATTENTION_CONCAT(status_or_, __LINE__), target, expression)
