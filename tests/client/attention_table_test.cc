#include "client/cli/show/attention_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Tensor Weights(Shape shape, const std::vector<float>& values) {
  Tensor tensor(Dtype::kF32, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.as<float>());
  return tensor;
}

TEST(AttentionTableTest, ShowsTheThreeHeaviestKeysInOrder) {
  const Tensor weights = Weights({1, 1, 4}, {0.1f, 0.4f, 0.2f, 0.3f});
  EXPECT_EQ(AttentionTable(weights, {}), "  0  ->   1  40.0%   3  30.0%   2  20.0%\n");
}

TEST(AttentionTableTest, AveragesHeadsUnlessOneIsChosen) {
  const Tensor weights = Weights({2, 1, 2}, {1.0f, 0.0f, 0.5f, 0.5f});
  EXPECT_EQ(AttentionTable(weights, {}), "  0  ->   0  75.0%   1  25.0%\n");
  EXPECT_EQ(AttentionTable(weights, {.head = 1}), "  0  ->   0  50.0%   1  50.0%\n");
}

TEST(AttentionTableTest, LabelsRowsAndKeysWithTokens) {
  const std::vector<std::string> tokens = {"(17)", "(4)"};
  const Tensor weights = Weights({1, 2, 2}, {1.0f, 0.0f, 0.25f, 0.75f});
  EXPECT_EQ(AttentionTable(weights, {.tokens = tokens}),
            "  0 (17)  ->   0 (17) 100.0%\n"
            "   1 (4)  ->    1 (4)  75.0%   0 (17)  25.0%\n");
}

TEST(AttentionTableTest, AlignsTokensByCharactersNotBytes) {
  const std::vector<std::string> tokens = {QuotedToken("caf\u00e9"), QuotedToken(" a\n")};
  const Tensor weights = Weights({1, 2, 2}, {1.0f, 0.0f, 0.25f, 0.75f});
  EXPECT_EQ(AttentionTable(weights, {.tokens = tokens}),
            "  0 \"caf\u00e9\"  ->   0 \"caf\u00e9\" 100.0%\n"
            "  1 \" a\\n\"  ->   1 \" a\\n\"  75.0%   0 \"caf\u00e9\"  25.0%\n");
}

TEST(AttentionTableTest, SaysWhenARowSeesNoKey) {
  EXPECT_EQ(AttentionTable(Weights({1, 1, 2}, {0.0f, 0.0f}), {}), "  0  ->   no key\n");
  EXPECT_EQ(AttentionTable(Weights({1, 1, 0}, {}), {}), "  0  ->   no key\n");
}

TEST(TopWeightsTableTest, ShowsTheKeysOfOneHead) {
  const LargestWeights top = {Weights({2, 2, 2}, {1.0f, 0.0f, 0.75f, 0.25f, 0.5f, 0.5f, 0, 0}),
                              {0, -1, 1, 10, 0, 1, -1, -1}};
  EXPECT_EQ(TopWeightsTable(top, {}),
            "  0  ->    0 100.0%\n"
            "  1  ->    1  75.0%   10  25.0%\n");
  EXPECT_EQ(TopWeightsTable(top, {.head = 1}),
            "  0  ->    0  50.0%    1  50.0%\n"
            "  1  ->   no key\n");
}

TEST(AttentionTableTest, CountsTheRowsItDoesNotShow) {
  const Tensor weights = Weights({1, 20, 1}, std::vector<float>(20, 1.0f));
  EXPECT_THAT(AttentionTable(weights, {}), HasSubstr("... 4 more rows"));
  EXPECT_THAT(AttentionTable(weights, {.max_rows = 20}), Not(HasSubstr("more rows")));
}

}  // namespace
}  // namespace attention
