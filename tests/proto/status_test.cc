#include "proto/codec/status.h"

#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

TEST(StatusTest, KeepsCodeAndTextBothWays) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "text");
    const grpc::Status wire = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    EXPECT_EQ(wire.error_message(), "text");
    EXPECT_EQ(ToAbslStatus(wire), status);
  }
}

TEST(StatusTest, OkIsOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_THAT(ToAbslStatus(grpc::Status::OK), IsOk());
}

TEST(StatusTest, CodesOfNobodyAreUnknown) {
  // The largest number that the enumeration can hold.
  EXPECT_THAT(ToAbslStatus(grpc::Status(static_cast<grpc::StatusCode>(31), "odd")),
              StatusIs(absl::StatusCode::kUnknown, "odd"));
}

}  // namespace
}  // namespace attention
