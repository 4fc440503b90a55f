// Models whose padding has no position, when earlier tokens come from a cache.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_replace.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/models/golden_server.h"
#include "tests/server/prefix_requests.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kPadding = 3;

// A RoBERTa whose rows see earlier rows only, so that it has caches.
class PaddingPositionsTest : public ::testing::Test {
 protected:
  PaddingPositionsTest() {
    const std::string folder = kCheckpoints + "/roberta";
    std::ifstream config(folder + "/config.json");
    const std::string text((std::istreambuf_iterator<char>(config)), {});
    models_.Write("causal/config.json",
                  absl::StrReplaceAll(text, {{"\"is_decoder\": false", "\"is_decoder\": true"}}));
    std::filesystem::copy(folder + "/model.safetensors", models_.path() + "/causal");
  }

  ServerOptions Options(int64_t prefix_cache_bytes) const {
    ServerOptions options = ServerOptionsFor(models_.path());
    options.prefix_cache_bytes = prefix_cache_bytes;
    return options;
  }

  static v1::AttendResponse Ask(InProcessServer& server, const Ids& ids) {
    AttendClient client(server.NewChannel());
    v1::AttendResponse response;
    const grpc::Status status = client.Attend(PromptRequest("causal", ids), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  const TempFolder models_;
};

TEST_F(PaddingPositionsTest, APrefixWithPaddingIsNotTakenFromTheCache) {
  InProcessServer plain(Options(0));
  InProcessServer caching(Options(64 << 20));
  Ask(caching, {17, 18, 1, 19, 20, 21});
  EXPECT_EQ(Ask(caching, {17, 18, 1, 19, 20, 22}).summary().cached_tokens(), 5);
  for (const Ids& ids : {Ids{17, 18, kPadding, 19, 20, 21}, Ids{17, 18, kPadding, 19, 20, 22},
                         Ids{17, 18, 1, 19, kPadding, 22}, Ids{17, 18, 1, 19, 20, 21, 22}}) {
    EXPECT_TRUE(Ask(caching, ids).output().data() == Ask(plain, ids).output().data());
  }
}

TEST_F(PaddingPositionsTest, ASessionTakesNoPadding) {
  InProcessServer server(Options(0));
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("causal"));
  stream.Must(TokensStep({17, 18}));
  EXPECT_THAT(stream.Do(TokensStep({1, kPadding, 19})).result.message(),
              HasSubstr("expected none that is padding, which has no position in model \"causal\", "
                        "in a session, found 3"));
  stream.Must(TokensStep({1, 19}));
}

}  // namespace
}  // namespace attention
