#include "client/cli/files/tensor_file.h"

#include <cstring>
#include <filesystem>

#include "client/cli/files/npy.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tensors.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorFileTest : public ::testing::Test {
 protected:
  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }

  TempFolder folder_;
  const Tensor first_ = SeededTensor(1, Dtype::kF32, {2, 3});
  const Tensor second_ = SeededTensor(2, Dtype::kBf16, {4});
};

TEST_F(TensorFileTest, RandomTensorsDependOnTheSeedAlone) {
  const auto one = LoadTensor("random:2x3", 7), same = LoadTensor("random:2x3", 7),
             other = LoadTensor("random:2x3", 8);
  ASSERT_THAT(one, IsOk());
  EXPECT_THAT(one->shape(), ElementsAre(2, 3));
  EXPECT_TRUE(SameBits(*one, *same));
  EXPECT_FALSE(SameBits(*one, *other));
}

TEST_F(TensorFileTest, PicksATensorByName) {
  ASSERT_THAT(SaveTensors(PathOf("two.safetensors"), first_, {{"weights.0", &second_}}), IsOk());
  const auto read = LoadTensor(PathOf("two.safetensors:weights.0"), 0);
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(SameBits(*read, second_));
}

TEST_F(TensorFileTest, NeedsNoNameWhenThereIsOneTensor) {
  ASSERT_THAT(SaveTensors(PathOf("one.safetensors"), first_), IsOk());
  const auto read = LoadTensor(PathOf("one.safetensors"), 0);
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(SameBits(*read, first_));
}

TEST_F(TensorFileTest, ListsTheTensorsWhenTheChoiceIsUnclear) {
  ASSERT_THAT(SaveTensors(PathOf("two.safetensors"), first_, {{"weights.0", &second_}}), IsOk());
  EXPECT_THAT(LoadTensor(PathOf("two.safetensors"), 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("FILE:TENSOR"), HasSubstr("output, weights.0"))));
  EXPECT_THAT(LoadTensor(PathOf("two.safetensors:query"), 0),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("\"query\""), HasSubstr("output, weights.0"))));
}

TEST_F(TensorFileTest, ReadsFilesWithAColonInTheirName) {
  ASSERT_THAT(WriteNpy(PathOf("a:b.npy"), first_), IsOk());
  const auto read = LoadTensor(PathOf("a:b.npy"), 0);
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(SameBits(*read, first_));
}

TEST_F(TensorFileTest, RefusesNamesThatNoPathCanHave) {
  const std::string too_long(5000, 'x');
  for (const std::string& name : {too_long, too_long + ".npy", too_long + ".safetensors"}) {
    EXPECT_FALSE(LoadTensor(name, 0).ok());
    EXPECT_FALSE(FileExists(name));
  }
}

TEST_F(TensorFileTest, WritesTheOutputAloneToNpy) {
  ASSERT_THAT(SaveTensors(PathOf("out.npy"), first_, {{"weights.0", &second_}}), IsOk());
  const auto read = LoadTensor(PathOf("out.npy"), 0);
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(SameBits(*read, first_));
}

TEST_F(TensorFileTest, RefusesNamesAndExtensionsItDoesNotKnow) {
  EXPECT_THAT(LoadTensor("rows.csv", 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"rows.csv\"")));
  EXPECT_THAT(LoadTensor("rows.npy:x", 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one tensor")));
  EXPECT_THAT(LoadTensor("random:2xx", 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2xx")));
  EXPECT_THAT(LoadTensor(PathOf("absent.safetensors"), 0),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
  EXPECT_THAT(SaveTensors(PathOf("out.txt"), first_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("out.txt")));
}

}  // namespace
}  // namespace attention
