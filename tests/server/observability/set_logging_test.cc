// SetLogging against a real server, in this process: what is logged is standard error's.
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "proto/codec/status.h"
#include "server/log/log.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;
using v1::Logging;

class SetLoggingTest : public ::testing::Test {
 protected:
  ~SetLoggingTest() override { SetLogLevel(LogLevel::kInfo); }

  absl::Status Set(const v1::SetLoggingRequest& request) {
    grpc::ClientContext context;
    return ToAbslStatus(client_.stub().SetLogging(&context, request, &now_));
  }
  v1::SetLoggingRequest With(std::optional<Logging::Level> level,
                             std::optional<Logging::Requests> requests) {
    v1::SetLoggingRequest request;
    if (level.has_value()) {
      request.set_level(*level);
    }
    if (requests.has_value()) {
      request.set_requests(*requests);
    }
    return request;
  }
  // What a request for a model that is not there adds to the log.
  std::string LogOfAFailure() {
    ::testing::internal::CaptureStderr();
    v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {2, 512}));
    request.set_model("nowhere");
    grpc::ClientContext context;
    v1::AttendResponse response;
    EXPECT_EQ(client_.stub().Attend(&context, request, &response).error_code(),
              StatusCode::NOT_FOUND);
    // The line comes after the answer: a draining server has written it.
    server_.server().Drain(absl::Minutes(5));
    return ::testing::internal::GetCapturedStderr();
  }

  InProcessServer server_{{.admin_listen = "127.0.0.1:0"}};
  AttendClient client_{server_.NewAdminChannel()};
  Logging now_;
};

TEST_F(SetLoggingTest, SaysWhatIsLoggedWhenNothingIsAsked) {
  EXPECT_THAT(Set({}), IsOk());
  EXPECT_EQ(now_.level(), Logging::INFO);
  EXPECT_EQ(now_.requests(), Logging::FAILED);
}

TEST_F(SetLoggingTest, ChangesOneWithoutTheOther) {
  EXPECT_THAT(Set(With(Logging::ERROR, {})), IsOk());
  EXPECT_EQ(now_.level(), Logging::ERROR);
  EXPECT_EQ(now_.requests(), Logging::FAILED);
  EXPECT_THAT(Set(With({}, Logging::ALL)), IsOk());
  EXPECT_EQ(now_.level(), Logging::ERROR);
  EXPECT_EQ(now_.requests(), Logging::ALL);
}

TEST_F(SetLoggingTest, RefusesWhatIsNoLevelAndChangesNothing) {
  v1::SetLoggingRequest request = With(static_cast<Logging::Level>(9), Logging::ALL);
  EXPECT_THAT(Set(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "level: expected DEBUG (0), INFO (1), WARNING (2) or ERROR (3), found 9"));
  EXPECT_THAT(Set({}), IsOk());
  EXPECT_EQ(now_.requests(), Logging::FAILED);
}

TEST_F(SetLoggingTest, AFailureIsLoggedAtTheLevelAsItStands) {
  EXPECT_THAT(LogOfAFailure(), HasSubstr("NOT_FOUND"));
}

TEST_F(SetLoggingTest, AFailureIsNotLoggedAtALevelAboveIt) {
  EXPECT_THAT(Set(With(Logging::ERROR, {})), IsOk());
  EXPECT_THAT(LogOfAFailure(), Not(HasSubstr("NOT_FOUND")));
}

TEST_F(SetLoggingTest, TheChangeItselfIsLoggedThoughTheNewLevelIsHigher) {
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(Set(With(Logging::ERROR, {})), IsOk());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("INFO logging was changed log_level=ERROR log_requests=FAILED"));
}

}  // namespace
}  // namespace attention
