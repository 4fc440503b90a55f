// Matchers of absl::Status and absl::StatusOr.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"

namespace attention {

inline constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
inline constexpr auto kNotFound = absl::StatusCode::kNotFound;

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

/// EXPECT_THAT(Parse(text), IsOk());
MATCHER(IsOk, negation ? "is an error" : "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

/// EXPECT_THAT(Parse(text), StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"name\"")));
MATCHER_P2(StatusIs, code, message_matcher, "") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code && ::testing::Matches(::testing::SafeMatcherCast<const std::string&>(
                                      message_matcher))(std::string(status.message()));
}

/// Of a grpc::Status: EXPECT_THAT(status, IsRefusal(grpc::StatusCode::NOT_FOUND, "model: ..."));
MATCHER_P2(IsRefusal, code, text, "") {
  *result_listener << "code " << arg.error_code() << ": " << arg.error_message();
  return arg.error_code() == code && arg.error_message() == text;
}

}  // namespace attention
