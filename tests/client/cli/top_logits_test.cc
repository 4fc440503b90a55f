#include <algorithm>

#include "client/cli/show/run_report.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::IsEmpty;

TEST(TopLogitsTest, AreTheFiveLargestInOrder) {
  const float logits[] = {0.5f, 3, -1, 3, 2, 1, 9};
  EXPECT_THAT(TopLogits(logits), ElementsAre(FieldsAre(6, 9), FieldsAre(1, 3), FieldsAre(3, 3),
                                             FieldsAre(4, 2), FieldsAre(5, 1)));
  EXPECT_THAT(TopLogits({logits, 1}), ElementsAre(FieldsAre(0, 0.5f)));
  EXPECT_THAT(TopLogits({}), IsEmpty());
}

class NextTokensTest : public ::testing::Test {
 protected:
  NextTokensTest() {
    request_.input = TextInput{{"the cat", ""}};
    result_.tokens.resize(2);
    for (const auto& [id, token] : {std::pair(1, "the"), std::pair(0, " cat")}) {
      result_.tokens[0].add_ids(id);
      result_.tokens[0].add_tokens(token);
    }
    const float logits[] = {9, 9, 9, 0.25f, 1.5f, 0.5f};
    result_.output = Tensor(Dtype::kF32, {2, 3});
    std::copy(std::begin(logits), std::end(logits), result_.output.as<float>());
  }

  AttendRequest request_;
  AttendResult result_;
};

TEST_F(NextTokensTest, AreThoseOfTheLastRowWithTheTokensThatTheTextHas) {
  request_.model_output = v1::LOGITS;
  const auto sequences = *SequencesOf(request_, result_.tokens);
  const nlohmann::json next = NextTokensJson(request_, result_, sequences);
  EXPECT_EQ(NextTokensText(next),
            "next      after sequence 0:   1 the 1.5000   2 0.5000   0 ␣cat 0.2500\n");
  EXPECT_EQ(next.dump(),
            R"([{"sequence":0,"top":[{"id":1,"logit":1.5,"token":"the"},{"id":2,"logit":0.5},)"
            R"({"id":0,"logit":0.25,"token":" cat"}]}])");
}

TEST_F(NextTokensTest, AreNoneOfHiddenStates) {
  const auto sequences = *SequencesOf(request_, result_.tokens);
  EXPECT_EQ(NextTokensText(NextTokensJson(request_, result_, sequences)), "");
}

}  // namespace
}  // namespace attention
