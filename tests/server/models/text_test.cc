// Texts, cut by a model's own tokenizer.
#include <filesystem>

#include "tests/server/models/golden_server.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"
#include "tests/support/word_tokenizer.h"

namespace attention {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAre;

class TextTest : public ::testing::Test {
 protected:
  TextTest() {
    const std::filesystem::path source = kCheckpoints + "/bert";
    std::filesystem::copy(source, folder_.path() + "/bert");
    folder_.Write("bert/tokenizer.json", kWordTokenizer);
    server_ = std::make_unique<InProcessServer>(ServerOptionsFor(folder_.path()));
    client_ = std::make_unique<AttendClient>(server_->NewChannel());
  }

  v1::AttendResponse Attend(const v1::AttendRequest& request) {
    v1::AttendResponse response;
    const grpc::Status status = client_->Attend(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  std::string Refusal(const v1::AttendRequest& request) {
    v1::AttendResponse response;
    const grpc::Status status = client_->Attend(request, &response);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  }
  static v1::AttendRequest Texts(const std::vector<std::string>& texts) {
    v1::AttendRequest request;
    request.set_model("bert");
    request.mutable_text()->mutable_texts()->Add(texts.begin(), texts.end());
    return request;
  }

  const TempFolder folder_;
  std::unique_ptr<InProcessServer> server_;
  std::unique_ptr<AttendClient> client_;
};

TEST_F(TextTest, AreAnsweredAsTheirTokensAndSayThem) {
  const v1::AttendResponse text = Attend(Texts({"The cats sat", "on the mat"}));
  ASSERT_EQ(text.tokens_size(), 2);
  EXPECT_THAT(text.tokens(0).ids(), ElementsAre(1, 3, 4, 8, 5, 2));
  EXPECT_THAT(text.tokens(0).tokens(), ElementsAre("[CLS]", "the", "cat", "##s", "sat", "[SEP]"));
  EXPECT_THAT(text.tokens(1).ids(), ElementsAre(1, 6, 3, 7, 2));
  v1::AttendRequest ids = TokenRequest("bert", {1, 3, 4, 8, 5, 2, 1, 6, 3, 7, 2}, 11);
  ids.mutable_token_ids()->mutable_lengths()->Clear();
  ids.mutable_token_ids()->add_lengths(6);
  ids.mutable_token_ids()->add_lengths(5);
  const v1::AttendResponse same = Attend(ids);
  EXPECT_EQ(text.output().data(), same.output().data());
  EXPECT_THAT(text.output().shape(), ElementsAre(11, 40));
  EXPECT_EQ(same.tokens_size(), 0);
}

TEST_F(TextTest, ALayerTakesThemToo) {
  v1::AttendRequest request = Texts({"the cat"});
  request.mutable_text()->set_no_special_tokens(true);
  request.set_layer(1);
  request.mutable_options()->set_return_weights(true);
  const v1::AttendResponse text = Attend(request);
  EXPECT_THAT(text.tokens(0).ids(), ElementsAre(3, 4));
  EXPECT_THAT(text.weights(0).shape(), ElementsAre(4, 2, 2));
  v1::AttendRequest ids = TokenRequest("bert", {3, 4}, 2);
  ids.set_layer(1);
  EXPECT_EQ(text.output().data(), Attend(ids).output().data());
}

TEST_F(TextTest, AStreamSaysTheTokensFirst) {
  v1::AttendRequest request = Texts({"", "the cat sat on the mat"});
  request.mutable_text()->set_no_special_tokens(true);
  std::vector<v1::AttendStreamResponse> parts;
  ASSERT_TRUE(client_->AttendStream(request, &parts).ok());
  ASSERT_EQ(parts.size(), 3u) << "an empty text has neither tokens nor rows";
  EXPECT_EQ(parts[0].tokens().sequence(), 1);
  EXPECT_EQ(parts[0].tokens().first_token(), 0);
  EXPECT_THAT(parts[0].tokens().tokens().ids(), ElementsAre(3, 4, 5, 6, 3, 7));
  EXPECT_EQ(parts[1].rows().output().data(), Attend(request).output().data());
  EXPECT_TRUE(parts[2].has_summary());
  EXPECT_EQ(Attend(request).tokens(0).ids_size(), 0);
}

TEST_F(TextTest, RefusesThoseThatTheModelCannotTake) {
  EXPECT_EQ(Refusal(Texts({})), "text.texts: expected at least one text, found none");
  EXPECT_EQ(Refusal(Texts({"the", "the beyond"})),
            "text.texts[1] as token_ids.ids: expected 0 to 46, found 47 at position 2");
  std::string long_text;
  for (int i = 0; i < 40; ++i) {
    long_text += "the ";
  }
  EXPECT_EQ(Refusal(Texts({long_text})),
            "text.texts[0]: text: expected at most 24 tokens, found more");
}

TEST_F(TextTest, RefusesByTheirLengthThoseThatNoTokensOfTheModelStandFor) {
  EXPECT_EQ(Refusal(Texts({"the", std::string(6145, 'a')})),
            "text.texts[1]: expected at most 6144 bytes, since 24 tokens cannot represent more, "
            "found 6145");
}

TEST_F(TextTest, RefusesMoreThanARequestMayHave) {
  v1::AttendResponse response;
  EXPECT_THAT(client_->Attend(Texts(std::vector<std::string>(4097)), &response),
              IsRefusal(StatusCode::RESOURCE_EXHAUSTED,
                        "text.texts: expected at most 4096 sequences in a request, found 4097"));
}

TEST_F(TextTest, ModelsSayThatTheyTakeThem) {
  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_model("bert");
  v1::Model model;
  ASSERT_TRUE(client_->stub().GetModel(&context, request, &model).ok());
  EXPECT_TRUE(model.has_tokenizer());
  EXPECT_EQ(model.num_token_types(), 2);
}

}  // namespace
}  // namespace attention
