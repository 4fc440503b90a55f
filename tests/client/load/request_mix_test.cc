#include "client/load/request_mix.h"

#include <memory>
#include <utility>

#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/byte_buffer.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Hidden states [batch_size, seq_len, 4].
Workload Rows(int64_t batch_size, int64_t seq_len) {
  Workload workload;
  workload.tensors.push_back(
      std::make_unique<const Tensor>(SeededTensor(3, Dtype::kF32, {batch_size, seq_len, 4})));
  workload.request.model = "demo";
  workload.request.input = HiddenStatesInput{workload.tensors[0].get()};
  return workload;
}

Workload Tokens() {
  Workload workload;
  workload.request.model = "demo";
  workload.request.input = TokenIdsInput{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {5, 5}, {}};
  return workload;
}

TEST(RequestMixTest, OneRequestIsOneKindAndEncodesAsItself) {
  const Workload workload = Rows(2, 5);
  const RequestMix mix(Rows(2, 5));
  EXPECT_EQ(mix.num_kinds(), 1u);
  EXPECT_EQ(mix.Describe(), Describe(workload.request));
  const auto bytes = mix.Encode(0, NativeProtocol(false));
  ASSERT_THAT(bytes, IsOk());
  EXPECT_EQ(Join(*bytes), Join(*EncodeRequest(workload.request)));
  EXPECT_EQ(*mix.CountTokens(0, {}), 10);
}

TEST(RequestMixTest, EachLengthEncodesAsTheRequestThatIsMadeOfIt) {
  for (const bool are_tokens : {false, true}) {
    const auto mix = RequestMix::OfLengths(are_tokens ? Tokens() : Rows(2, 5),
                                           {"file:x", {1, 3, 5}, {1.0, 1.0, 2.0}});
    ASSERT_THAT(mix, IsOk());
    ASSERT_EQ(mix->num_kinds(), 3u);
    for (size_t kind = 0; kind < 3; ++kind) {
      const Workload made = mix->Make(kind);
      const auto bytes = mix->Encode(kind, NativeProtocol(false));
      ASSERT_THAT(bytes, IsOk());
      EXPECT_EQ(Join(*bytes), Join(*EncodeRequest(made.request)));
      EXPECT_EQ(*mix->CountTokens(kind, {}), *QueryRows(made.request, {}));
    }
  }
}

TEST(RequestMixTest, CutsRowsAndTokens) {
  const auto rows = RequestMix::OfLengths(Rows(2, 5), {"m", {3, 5}, {1.0, 1.0}});
  ASSERT_THAT(rows, IsOk());
  const Workload cut_rows = rows->Make(0);
  EXPECT_THAT(std::get<HiddenStatesInput>(cut_rows.request.input).tensor->shape(),
              ElementsAre(2, 3, 4));
  EXPECT_EQ(rows->Describe(), "hidden states [2, 5, 4] FP32, lengths m");
  const auto tokens = RequestMix::OfLengths(Tokens(), {"m", {3, 5}, {1.0, 1.0}});
  ASSERT_THAT(tokens, IsOk());
  const Workload cut_tokens = tokens->Make(0);
  const auto& ids = std::get<TokenIdsInput>(cut_tokens.request.input);
  EXPECT_THAT(ids.ids, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(ids.lengths, ElementsAre(3, 3));
  EXPECT_EQ(tokens->Describe(), "2 sequences of 5 tokens, lengths m");
}

TEST(RequestMixTest, BytesOutliveTheMix) {
  grpc::ByteBuffer bytes;
  {
    const auto mix = RequestMix::OfLengths(Rows(1, 5), {"m", {3, 5}, {1.0, 1.0}});
    bytes = *mix->Encode(0, NativeProtocol(false));
  }
  const Workload three = Rows(1, 3);
  EXPECT_EQ(Join(bytes), Join(*EncodeRequest(three.request)));
}

TEST(RequestMixTest, RefusesWhatCannotBeCut) {
  const LengthMix lengths{"m", {3, 5}, {1.0, 1.0}};
  Workload with_lengths = Rows(2, 5);
  std::get<HiddenStatesInput>(with_lengths.request.input).lengths = {5, 3};
  EXPECT_THAT(RequestMix::OfLengths(std::move(with_lengths), lengths),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("without lengths")));
  Workload with_mask = Rows(2, 5);
  const MaskTensor mask{{1, 1, 5, 5}, std::vector<uint8_t>(25)};
  with_mask.request.mask = &mask;
  EXPECT_THAT(RequestMix::OfLengths(std::move(with_mask), lengths),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no bias, mask")));
  Workload text;
  text.request.input = TextInput{{"a"}};
  EXPECT_THAT(RequestMix::OfLengths(std::move(text), lengths),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("token ids")));
}

}  // namespace
}  // namespace attention
