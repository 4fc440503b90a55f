// What goes with every call, and what does not.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/lib/channel.h"
#include "client/lib/decode_stream.h"
#include "client/load/decode_load.h"
#include "client/load/load_generator.h"
#include "client/load/request_mix.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/client/lib/metadata_server.h"
#include "tests/support/localhost.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

class MetadataTest : public ::testing::Test {
 protected:
  MetadataTest() {
    options_ = {.server = server_.address(),
                .token = "s3cret",
                .metadata = {{"attend-tenant", "a"}, {"attend-tenant", "b"}, {"trace-bin", "\n"}}};
  }

  void ExpectAllOf(const char* method) const {
    EXPECT_THAT(server_.MetadataOf(method),
                AllOf(Contains(Pair("authorization", "Bearer s3cret")),
                      Contains(Pair("attend-tenant", "a")), Contains(Pair("attend-tenant", "b")),
                      Contains(Pair("trace-bin", "\n"))))
        << method;
  }

  const MetadataServer server_;
  ConnectionOptions options_;
};

TEST_F(MetadataTest, GoesWithEveryKindOfCall) {
  const auto client = AttentionClient::Connect({.connection = options_});
  ASSERT_THAT(client, IsOk());
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 2, 8});
  AttendRequest request;
  request.input = HiddenStatesInput{&rows};
  EXPECT_THAT((*client)->GetModel("demo"), IsOk());
  (*client)->Attend(request).IgnoreError();
  (*client)->AttendStream(request, {}).IgnoreError();
  EXPECT_THAT(DecodeStream::Open({.connection = options_}, {}),
              StatusIs(absl::StatusCode::kUnimplemented, "no sessions"));
  for (const char* method : {"GetModel", "Attend", "AttendStream", "Decode"}) {
    ExpectAllOf(method);
  }
}

TEST_F(MetadataTest, GoesWithEveryKindOfLoad) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 2, 8});
  const LoadOptions options = {
      .connection = options_, .duration = absl::Milliseconds(50), .timeout = absl::Minutes(2)};
  Workload workload;
  workload.request.model = "demo";
  workload.request.input = HiddenStatesInput{&rows};
  const auto plan = DecodePlan::Make(workload.request, {}, 1);
  ASSERT_THAT(plan, IsOk());
  const RequestMix mix(std::move(workload));
  for (const bool is_streaming : {false, true}) {
    const NativeProtocol protocol(is_streaming);
    const auto load = EncodeLoad(mix, protocol, {});
    ASSERT_THAT(load, IsOk());
    EXPECT_THAT(RunLoad(*load, options, {}), IsOk());
    ExpectAllOf(is_streaming ? "AttendStream" : "Attend");
  }
  const auto session = EncodeSession(*plan);
  ASSERT_THAT(session, IsOk());
  EXPECT_THAT(RunDecodeLoad(*session, options, {}), IsOk());
  ExpectAllOf("Decode");
}

TEST_F(MetadataTest, IsRefusedWhereHttp2DoesNotCarryIt) {
  for (const char* name :
       {"", "Upper", "with space", "grpc-timeout", ":path", "connection", "te", "upgrade"}) {
    EXPECT_THAT(Ask({.metadata = {{name, "x"}}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("found \"", name, "\""))));
  }
  EXPECT_THAT(Ask({.metadata = {{"name", "two\nlines"}}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("the value of \"name\""), Not(HasSubstr("two")))));
  EXPECT_THAT(Ask({.token = "a\nb"}), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("the value of \"authorization\"")));
}

TEST(TokenTest, IsSentOnceWithoutTheSpaceAroundIt) {
  const auto sent = MetadataOf({.server = "localhost:1",
                                .token = " s3cret\n",
                                .metadata = {{"authorization", "Basic eA=="}, {"a", "b"}}});
  ASSERT_THAT(sent, IsOk());
  EXPECT_THAT(*sent, ElementsAre(Pair("a", "b"), Pair("authorization", "Bearer s3cret")));
  const auto blank = MetadataOf({.server = "localhost:1", .token = " \n"});
  ASSERT_THAT(blank, IsOk());
  EXPECT_THAT(*blank, IsEmpty());
}

TEST(TokenTest, LeavesThisMachineOverTlsOnly) {
  const auto refused = [](const std::string& server) {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    AllOf(HasSubstr("expected TLS"), HasSubstr(absl::StrCat("to ", server, ","))));
  };
  for (const std::string server :
       {"attend.test:8001", "dns:///attend.test:8001", "192.0.2.1:8001", "127.attend.test:8001",
        "[2001:db8::1]:8001", "dns://127.0.0.1/attend.test:8001"}) {
    EXPECT_THAT(MakeChannel({.server = server, .token = "t"}), refused(server));
    EXPECT_THAT(MakeChannel({.server = server, .metadata = {{"authorization", "Basic eA=="}}}),
                refused(server));
    EXPECT_THAT(MakeChannel({.server = server, .tls = TlsOptions{}, .token = "t"}), IsOk());
    EXPECT_THAT(MakeChannel({.server = server}), IsOk());
  }
  std::vector<std::string> local = {"localhost:1", "127.0.0.1:1",        "127.8.8.8:1",
                                    "[::1]:1",     "dns:///localhost:1", "127.0.0.1:1, [::1]:2",
                                    "unix:/tmp/s"};
  if (KnowsLocalhost()) {  // the hosts of a list are looked up at once
    local.push_back("localhost:1, localhost:2");
  }
  for (const std::string& server : local) {
    EXPECT_THAT(MakeChannel({.server = server, .token = "t"}), IsOk());
  }
}

}  // namespace
}  // namespace attention
