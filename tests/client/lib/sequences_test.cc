#include "client/lib/sequences.h"

#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::HasSubstr;

class SequencesTest : public ::testing::Test {
 protected:
  const Tensor padded_{Dtype::kF32, {2, 5, 4}};
  const Tensor packed_{Dtype::kF32, {8, 4}};
  const Tensor memory_{Dtype::kF32, {2, 7, 4}};
};

AttendRequest Request(decltype(AttendRequest::input) input) {
  return {.model = "", .input = std::move(input)};
}

TEST_F(SequencesTest, PaddedRowsBeginAtMultiplesOfTheSequenceLength) {
  const AttendRequest request = Request(HiddenStatesInput{&padded_, {3, 5}, nullptr, {}});
  EXPECT_THAT(*SequencesOf(request),
              ElementsAre(FieldsAre(0, 3, 0, 3, 0, 0, 3), FieldsAre(5, 5, 5, 5, 0, 5, 5)));
  EXPECT_THAT(LeadingExtents(request, *SequencesOf(request)), ElementsAre(2, 5));
}

TEST_F(SequencesTest, PackedRowsFollowEachOther) {
  const AttendRequest request = Request(HiddenStatesInput{&packed_, {3, 0, 5}, nullptr, {}});
  EXPECT_THAT(*SequencesOf(request),
              ElementsAre(FieldsAre(0, 3, 0, 3, 0, 0, 3), FieldsAre(3, 0, 3, 0, 0, 3, 0),
                          FieldsAre(3, 5, 3, 5, 0, 3, 5)));
  EXPECT_THAT(LeadingExtents(request, *SequencesOf(request)), ElementsAre(8));
}

TEST_F(SequencesTest, WithoutLengthsAPackedInputIsOneSequence) {
  EXPECT_THAT(*SequencesOf(Request(TokenIdsInput{{1, 2, 3}, {}})),
              ElementsAre(FieldsAre(0, 3, 0, 3, 0, 0, 3)));
}

TEST_F(SequencesTest, MemoryAlignsTheLastRowWithTheLastKey) {
  EXPECT_THAT(*SequencesOf(Request(HiddenStatesInput{&padded_, {}, &memory_, {7, 6}})),
              ElementsAre(FieldsAre(0, 5, 0, 7, 2, 0, 5), FieldsAre(5, 5, 7, 6, 1, 5, 5)));
}

TEST_F(SequencesTest, PaddedKvLengthsHideKeysButMoveNoPosition) {
  const Tensor query(Dtype::kF32, {2, 3, 2, 4}), key(Dtype::kF32, {2, 6, 2, 4});
  EXPECT_THAT(*SequencesOf(Request(QueryKeyValueInput{&query, &key, &key, {}, {6, 2}, {}})),
              ElementsAre(FieldsAre(0, 3, 0, 6, 3, 0, 3), FieldsAre(3, 3, 6, 2, 3, 3, 3)));
}

TEST_F(SequencesTest, PackedKeysAlignEachSequenceByItself) {
  const Tensor query(Dtype::kF32, {3, 2, 4}), key(Dtype::kF32, {9, 2, 4});
  EXPECT_THAT(*SequencesOf(Request(QueryKeyValueInput{&query, &key, &key, {1, 2}, {4, 5}, {}})),
              ElementsAre(FieldsAre(0, 1, 0, 4, 3, 0, 1), FieldsAre(1, 2, 4, 5, 3, 1, 2)));
}

TEST_F(SequencesTest, QueryOffsetsWin) {
  const Tensor query(Dtype::kF32, {1, 3, 2, 4}), key(Dtype::kF32, {1, 6, 2, 4});
  EXPECT_THAT(*SequencesOf(Request(QueryKeyValueInput{&query, &key, &key, {}, {}, {-1}})),
              ElementsAre(FieldsAre(0, 3, 0, 6, -1, 0, 3)));
}

TEST_F(SequencesTest, PooledSequencesHaveARowEachUnlessTheyHaveNoTokens) {
  AttendRequest request = Request(HiddenStatesInput{&packed_, {3, 0, 5}, nullptr, {}});
  request.model_output = v1::MEAN_POOLED;
  EXPECT_THAT(*SequencesOf(request),
              ElementsAre(FieldsAre(0, 3, 0, 3, 0, 0, 1), FieldsAre(3, 0, 3, 0, 0, 1, 0),
                          FieldsAre(3, 5, 3, 5, 0, 2, 1)));
  EXPECT_THAT(LeadingExtents(request, *SequencesOf(request)), ElementsAre(3));
}

TEST_F(SequencesTest, TextsAreAsLongAsTheirTokens) {
  std::vector<v1::TokenizedText> tokens(2);
  tokens[1].add_ids(4);
  tokens[1].add_ids(5);
  const AttendRequest request = Request(TextInput{{"", "the cat"}});
  EXPECT_THAT(*SequencesOf(request, tokens),
              ElementsAre(FieldsAre(0, 0, 0, 0, 0, 0, 0), FieldsAre(0, 2, 0, 2, 0, 0, 2)));
  EXPECT_THAT(LeadingExtents(request, *SequencesOf(request, tokens)), ElementsAre(2));
  EXPECT_THAT(SequencesOf(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tokens: expected those of 2 texts, found those of 0")));
}

TEST_F(SequencesTest, AnEncoderAloneAnswersForItsMemory) {
  const AttendRequest request = Request(HiddenStatesInput{nullptr, {}, &memory_, {7, 6}});
  EXPECT_THAT(*SequencesOf(request),
              ElementsAre(FieldsAre(0, 7, 0, 7, 0, 0, 7), FieldsAre(7, 6, 7, 6, 0, 7, 6)));
  EXPECT_THAT(LeadingExtents(request, *SequencesOf(request)), ElementsAre(2, 7));
}

TEST_F(SequencesTest, RefusesLengthsThatDoNotFit) {
  const struct {
    std::vector<int64_t> lengths;
    const Tensor* tensor;
    const char* text;
  } cases[] = {
      {{3}, &padded_, "lengths: expected 2 values, found 1"},
      {{3, 6}, &padded_, "lengths: expected values of 0 to 5, found 6"},
      {{3, -1}, &padded_, "lengths: expected values of 0 to 5, found -1"},
      {{3, 4}, &packed_, "lengths: expected values that sum to 8, found 7"},
      {{3, 6}, &packed_, "lengths: expected values that sum to 8, found 9"},
  };
  for (const auto& [lengths, tensor, text] : cases) {
    EXPECT_THAT(SequencesOf(Request(HiddenStatesInput{tensor, lengths, nullptr, {}})),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
  EXPECT_THAT(SequencesOf(Request(HiddenStatesInput{&packed_, {3, 5}, &packed_, {}})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 sequences, found 1")));
}

TEST_F(SequencesTest, RefusesTensorsOfAnotherRank) {
  const Tensor scalar(Dtype::kF32, {});
  const Tensor rows(Dtype::kF32, {3, 4});
  const Tensor heads(Dtype::kF32, {3, 2, 4});
  const std::pair<decltype(AttendRequest::input), const char*> cases[] = {
      {HiddenStatesInput{&scalar, {}, nullptr, {}},
       "hidden_states: expected 2 or 3 extents, found 0"},
      {HiddenStatesInput{nullptr, {}, &scalar, {}}, "memory: expected 2 or 3 extents, found 0"},
      {QueryKeyValueInput{&scalar, &heads, &heads}, "query: expected 3 or 4 extents, found 0"},
      {QueryKeyValueInput{&heads, &rows, &heads}, "key: expected 3 or 4 extents, found 2"},
      {QueryKeyValueInput{&heads, &heads, &scalar}, "value: expected 3 or 4 extents, found 0"}};
  for (const auto& [input, text] : cases) {
    EXPECT_THAT(SequencesOf(Request(input)), StatusIs(absl::StatusCode::kInvalidArgument, text));
  }
}

}  // namespace
}  // namespace attention
