#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/models/model_repository.h"
#include "core/models/seeded_model.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;

TEST(ParseSeededModelSpecTest, ReadsEveryKey) {
  const auto spec = ParseSeededModelSpec(
      "small:d_model=64,num_heads=4,num_kv_heads=2,head_dim=24,value_head_dim=8,vocab_size=10,"
      "max_positions=20,dtype=bf16,causal=true,seed=9");
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->name, "small");
  EXPECT_EQ(spec->d_model, 64);
  EXPECT_EQ(spec->num_heads, 4);
  EXPECT_EQ(spec->num_kv_heads, 2);
  EXPECT_EQ(spec->head_dim, 24);
  EXPECT_EQ(spec->value_head_dim, 8);
  EXPECT_EQ(spec->vocab_size, 10);
  EXPECT_EQ(spec->max_positions, 20);
  EXPECT_EQ(spec->dtype, Dtype::kBf16);
  EXPECT_TRUE(spec->causal);
  EXPECT_EQ(spec->seed, 9u);
}

TEST(ParseSeededModelSpecTest, NamesWhatIsWrong) {
  EXPECT_THAT(ParseSeededModelSpec("small"), StatusIs(kInvalid, HasSubstr("found 'small'")));
  EXPECT_THAT(ParseSeededModelSpec("a:d_mode=64"),
              StatusIs(kInvalid, HasSubstr("unknown key 'd_mode'")));
  EXPECT_THAT(ParseSeededModelSpec("a:d_model=x"),
              StatusIs(kInvalid, HasSubstr("d_model: expected a positive number, found 'x'")));
  EXPECT_THAT(ParseSeededModelSpec("a:d_model=64,num_heads=4,dtype=fp16"),
              StatusIs(kInvalid, HasSubstr("dtype: expected fp32 or bf16, found 'fp16'")));
  for (const char* const name : {"a b", "a/b", "a\nb", "\xff"}) {
    EXPECT_THAT(ParseSeededModelSpec(std::string(name) + ":d_model=8,num_heads=2"),
                StatusIs(kInvalid, HasSubstr("model name: expected at most 128 letters")))
        << name;
  }
  EXPECT_THAT(ParseSeededModelSpec("a:d_model=64,num_heads=4,num_heads=2"),
              StatusIs(kInvalid, "num_heads: given twice"));
}

TEST(ModelTest, RefusesHeadsThatDoNotDivideTheModel) {
  EXPECT_THAT(Model::CreateSeeded({.name = "a", .d_model = 65, .num_heads = 4}),
              StatusIs(kInvalid, HasSubstr("d_model: expected a multiple of num_heads 4")));
}

TEST(ModelTest, RefusesExtentsThatAreTooLarge) {
  const std::string layer = "d_model=8,num_heads=8,";
  const std::pair<std::string, std::string> bad[] = {
      {"d_model=1048577,num_heads=8", "d_model: expected 1 to 1048576, found 1048577"},
      {"d_model=8,num_heads=1048577", "num_heads: expected 1 to 1048576, found 1048577"},
      {layer + "num_kv_heads=1048577", "num_kv_heads: expected 0 to 1048576, found 1048577"},
      {layer + "head_dim=1048577", "head_dim: expected 0 to 1048576, found 1048577"},
      {layer + "value_head_dim=1048577", "value_head_dim: expected 0 to 1048576, found 1048577"},
      {layer + "vocab_size=2305843009213693952,max_positions=8",
       "vocab_size: expected 0 to 1048576, found 2305843009213693952"},
      {layer + "vocab_size=8,max_positions=2305843009213693952",
       "max_positions: expected 1 to 1048576, found 2305843009213693952"},
      {layer + "vocab_size=8", "max_positions: expected 1 to 1048576, found 0"},
      {"d_model=1048576,num_heads=1048576,head_dim=1048576",
       "number of weights: expected 1 to 274877906944, found 4611686018427387904"},
      {"d_model=524288,num_heads=1,head_dim=1,vocab_size=1048576,max_positions=1",
       "number of weights: expected 1 to 274877906944, found 549758435328"},
  };
  for (const auto& [extents, message] : bad) {
    const auto spec = ParseSeededModelSpec("a:" + extents);
    ASSERT_THAT(spec, IsOk()) << extents;
    EXPECT_THAT(Model::CreateSeeded(*spec), StatusIs(kInvalid, message)) << extents;
  }
}

TEST(ModelTest, EmbedsTokenPlusPosition) {
  const auto model = *Model::CreateSeeded(DemoModelSpec());
  const std::vector<int32_t> ids = {999, 0, 999};
  std::vector<float> rows(3 * 512);
  ASSERT_THAT(model->ValidateTokens({ids, {}, 5}), IsOk());
  model->Embed({ids, {}, 5}, rows.data());
  const auto tokens = MakeSeededEmbedding(1, Dtype::kF32, "token_embedding", 1000, 512);
  const auto positions = MakeSeededEmbedding(1, Dtype::kF32, "position_embedding", 2048, 512);
  EXPECT_EQ(rows[0], tokens[999 * 512] + positions[5 * 512]);
  EXPECT_EQ(rows[2 * 512 + 7], tokens[999 * 512 + 7] + positions[7 * 512 + 7]);
}

// Where padding has the same position wherever it stands, and other tokens count from it.
TEST(ModelTest, EmbedsRowsOfASequenceAsTheWholeSequence) {
  const LoadedTestModel roberta("models/roberta");
  const Model& model = roberta.model();
  const std::vector<int32_t> ids = {0, 5, 3, 3, 7, 2, 3, 9};  // 3 is the padding
  const TokenSequence tokens{.ids = ids, .first_position = 2};
  ASSERT_THAT(model.ValidateTokens(tokens), IsOk());
  const int64_t width = model.info().d_model;
  std::vector<float> whole(ids.size() * width);
  model.Embed(tokens, whole.data());
  for (int64_t first = 0; first < std::ssize(ids); ++first) {
    for (int64_t count = 0; first + count <= std::ssize(ids); ++count) {
      std::vector<float> rows(count * width);
      model.EmbedRows(tokens, first, count, rows.data());
      EXPECT_TRUE(std::equal(rows.begin(), rows.end(), &whole[first * width]))
          << count << " from " << first;
    }
  }
}

TEST(ModelTest, RefusesTokensAndPositionsOutOfRange) {
  const auto model = *Model::CreateSeeded(DemoModelSpec());
  const std::vector<int32_t> bad = {1, 1000};
  EXPECT_THAT(model->ValidateTokens({bad}),
              StatusIs(kInvalid, Eq("token_ids.ids: expected 0 to 999, found 1000 at position 1")));
  EXPECT_THAT(model->ValidateTokens({std::vector<int32_t>(2049, 0)}),
              StatusIs(kInvalid, HasSubstr("at most 2048 positions")));
}

TEST(ModelRepositoryTest, FindsByNameAndRefusesASecondOfTheName) {
  ModelRepository repository;
  const SeededModelSpec spec{.name = "b", .d_model = 32, .num_heads = 2};
  ASSERT_THAT(repository.AddSeeded(spec), IsOk());
  EXPECT_THAT(repository.AddSeeded(spec),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'b' is taken")));
  ASSERT_THAT(repository.AddSeeded({.name = "a", .d_model = 32, .num_heads = 2}), IsOk());
  EXPECT_EQ(repository.Find("b")->info().seeded->head_dim, 16);
  EXPECT_EQ(repository.Find("c"), nullptr);
  ASSERT_EQ(repository.List().size(), 2u);
  EXPECT_EQ(repository.List().front()->name(), "a");
}

}  // namespace
}  // namespace attention
