// Which versions of a folder serve.
#include <filesystem>
#include <utility>

#include "core/models/seeded_model.h"
#include "tests/server/models/catalog_fixture.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(ModelCatalogTest, ServesTheHighestVersionOfEachName) {
  folder_.Put("a", "7");
  folder_.Put("b/2", "8");
  folder_.Put("b/10", "9");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=7", "b:10=9"));
  EXPECT_EQ(StateOf(catalog, "b", 10).phase, ModelPhase::kReady);
  EXPECT_TRUE(StateOf(catalog, "b", 10).is_serving);
  EXPECT_EQ(StateOf(catalog, "b", 10).read_bytes, 1000000);
  EXPECT_EQ(StateOf(catalog, "b", 2).phase, ModelPhase::kUnloaded);
  EXPECT_EQ(health_.IsServing("model/a"), true);
  EXPECT_EQ(health_.IsServing("model/b"), true);
}

TEST_F(ModelCatalogTest, AVersionThatCannotBePublishedDoesNotCountAsServing) {
  folder_.Put("a", "7");
  ServingEnvironment environment = environment_;
  environment.share =
      [tries = 0](std::unique_ptr<Model> model) mutable -> std::shared_ptr<const Model> {
    return ++tries == 1 ? throw std::bad_alloc() : std::move(model);
  };
  ModelCatalog catalog({.path = folder_.path()}, environment, health_);
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_FALSE(StateOf(catalog, "a", 1).is_serving);
  EXPECT_EQ(StateOf(catalog, "a", 1).phase, ModelPhase::kFailed);
  EXPECT_THAT(StateOf(catalog, "a", 1).error,
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=7")) << "the poll tries again";
}

TEST_F(ModelCatalogTest, ServesAllVersionsOrThoseThatAreNamed) {
  for (const char* place : {"a/1", "a/2", "a/3"}) {
    folder_.Put(place, "5");
  }
  {
    ModelCatalog all = MakeCatalog(Policies("all"));
    EXPECT_THAT(all.Refresh(Occasion::kRequest), IsOk());
    EXPECT_THAT(Serving(), ElementsAre("a:1=5", "a:2=5", "a:3=5"));
  }
  repository_.Withdraw("a", 1);
  repository_.Withdraw("a", 2);
  repository_.Withdraw("a", 3);
  ModelCatalog some = MakeCatalog(Policies("a=1,3,4"));
  EXPECT_THAT(some.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=5", "a:3=5"));
  EXPECT_THAT(
      StateOf(some, "a", 4).error,
      StatusIs(absl::StatusCode::kNotFound,
               Eq(folder_.path() + "/a: expected version 4 (--model-versions), found 1, 2, 3")));
}

TEST_F(ModelCatalogTest, ABadModelFailsForItselfAlone) {
  folder_.Put("bad", "none");
  folder_.Put("good", "1");
  std::filesystem::create_directory(folder_.path() + "/empty");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("good:1=1"));
  EXPECT_EQ(StateOf(catalog, "bad", 1).phase, ModelPhase::kFailed);
  EXPECT_THAT(StateOf(catalog, "bad", 1).error, StatusIs(absl::StatusCode::kInvalidArgument,
                                                         HasSubstr("expected a seed, found none")));
  EXPECT_THAT(StateOf(catalog, "empty", 0).error,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found nothing")));
  EXPECT_EQ(health_.IsServing("model/bad"), false);
}

TEST_F(ModelCatalogTest, AFolderCannotTakeTheServersNames) {
  folder_.Put("demo", "1");
  ASSERT_THAT(repository_.AddSeeded(DemoModelSpec()), IsOk());
  health_.Set("model/demo", true);
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(StateOf(catalog, "demo", 0).error,
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("expected another name")));
  EXPECT_EQ(repository_.Find("demo")->info().d_model, 512);
  EXPECT_EQ(health_.IsServing("model/demo"), true);
}

TEST_F(ModelCatalogTest, ThrowingLoadersAreFailures) {
  folder_.Put("a", "1");
  folder_.Put("b", "1");
  ServingEnvironment environment = environment_;
  environment.load = [](const ModelSource& source, WeightsDtype) -> absl::StatusOr<LoadedModel> {
    if (source.name == "a") {
      throw std::bad_alloc();
    }
    throw std::runtime_error("oh");
  };
  ModelCatalog catalog({.path = folder_.path()}, environment, health_);
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(StateOf(catalog, "a", 1).error,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("memory")));
  EXPECT_THAT(StateOf(catalog, "b", 1).error,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("/b: loading failed: oh")));
}

TEST_F(ModelCatalogTest, LoadsNothingMoreWhenItIsToldToStop) {
  folder_.Put("a", "1");
  go_on_ = false;
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(loads_, 0);
}

TEST_F(ModelCatalogTest, TheLogTellsWhichModelTakesNoTextAndWhy) {
  folder_.Put("a/3", "1");
  folder_.Put("b", "2");
  ServingEnvironment environment = environment_;
  environment.load = [](const ModelSource& source, WeightsDtype dtype) {
    absl::StatusOr<LoadedModel> loaded = LoadFakeModel(source, dtype);
    if (source.name == "a") {
      loaded->tokenizer_status = absl::InvalidArgumentError("a/tokenizer.json: expected x");
    }
    return loaded;
  };
  ModelCatalog catalog({.path = folder_.path()}, environment, health_);
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("WARNING model a version 3: takes no text; a/tokenizer.json: "
                             "expected x"));
  EXPECT_THAT(log, Not(HasSubstr("model b version 1: takes no text")));
  EXPECT_THAT(Serving(), ElementsAre("a:3=1", "b:1=2"));
}

TEST(DescribeLoadTest, TellsSizeTimeSpeedAndWhatIsNotUsed) {
  ReadyModel ready;
  ready.loaded.model = *Model::CreateSeeded({.name = "a", .d_model = 32, .num_heads = 2});
  ready.loaded.read_bytes = 300'000'000;
  ready.load_time = absl::Seconds(2);
  EXPECT_THAT(DescribeLoad(ready), AllOf(StartsWith("seeded, fp32 weights of "),
                                         HasSubstr("read 300.0 MB in 2.00 s (150 MB/s)")));
  ready.loaded.unused_tensors = {"x"};
  EXPECT_THAT(DescribeLoad(ready), ::testing::EndsWith("; 1 tensor is not used: x"));
  ready.loaded.unused_tensors = {"a", "b", "c", "d"};
  EXPECT_THAT(DescribeLoad(ready), ::testing::EndsWith("; 4 tensors are not used: a, b, c, ..."));
}

}  // namespace
}  // namespace attention
