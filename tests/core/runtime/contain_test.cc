#include "core/runtime/contain.h"

#include <new>
#include <stdexcept>
#include <system_error>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using absl::StatusCode;

TEST(ContainTest, ReturnsWhatTheWorkReturns) {
  EXPECT_THAT(Contain("work", [] { return absl::NotFoundError("x"); }),
              StatusIs(StatusCode::kNotFound, "x"));
  EXPECT_EQ(*Contain("work", [] { return absl::StatusOr<int>(3); }), 3);
  EXPECT_THAT(ContainVoid("work", [] {}), IsOk());
}

TEST(ContainTest, MemoryAndThreadsThatAreNotThereAreAShortage) {
  EXPECT_THAT(ContainVoid("computing", [] { throw std::bad_alloc(); }),
              StatusIs(StatusCode::kResourceExhausted, "computing failed: out of memory"));
  const auto no_thread = [] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            "clone");
  };
  EXPECT_EQ(ContainVoid("starting", no_thread).code(), StatusCode::kResourceExhausted);
}

TEST(ContainTest, AnythingElseIsInternalAndNamed) {
  EXPECT_THAT(ContainVoid("computing", [] { throw std::runtime_error("broken"); }),
              StatusIs(StatusCode::kInternal, "computing failed: broken"));
  EXPECT_THAT(ContainVoid("computing", [] { throw 3; }),
              StatusIs(StatusCode::kInternal, "computing failed: an exception of unknown type"));
  EXPECT_THAT(
      Contain("reading", []() -> absl::StatusOr<int> { throw std::logic_error("odd"); }).status(),
      StatusIs(StatusCode::kInternal, "reading failed: odd"));
}

}  // namespace
}  // namespace attention
