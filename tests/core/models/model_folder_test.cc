#include "core/models/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;

class ResolveInsideTest : public ::testing::Test {
 protected:
  const TempFolder temp_;
  const std::string secret_ = temp_.Write("secret", "x");
  const std::string file_ = temp_.Write("root/sub/file", "x");
  const std::string root_ = temp_.path() + "/root";
};

TEST_F(ResolveInsideTest, FollowsLinksThatStayInside) {
  fs::create_symlink("sub/file", root_ + "/link");
  const std::string canonical = fs::canonical(file_).string();
  for (const char* name : {"sub/file", "link", "sub/../link", "./sub//file"}) {
    const auto path = ResolveInside(root_, name);
    ASSERT_THAT(path, IsOk()) << name;
    EXPECT_EQ(*path, canonical) << name;
  }
  EXPECT_THAT(ResolveInside(root_ + "/", "link"), IsOk()) << "a slash at the end changes nothing";
}

TEST_F(ResolveInsideTest, RefusesNamesThatEscapeWhateverIsThere) {
  const std::string root = fs::canonical(root_).string();
  EXPECT_THAT(ResolveInside(root_, "../secret"),
              StatusIs(kInvalid, Eq(root_ + "/../secret: path escapes: expected one inside " +
                                    root + ", found ../secret")));
  for (const std::string& name :
       {std::string(".."), std::string("../absent"), std::string("sub/../../secret"), secret_}) {
    EXPECT_THAT(ResolveInside(root_, name), StatusIs(kInvalid, HasSubstr("path escapes"))) << name;
  }
}

TEST_F(ResolveInsideTest, RefusesLinksThatEscape) {
  fs::create_symlink(secret_, root_ + "/file");
  fs::create_symlink("..", root_ + "/up");
  fs::create_symlink(temp_.path() + "/root2", root_ + "/neighbour");
  temp_.Write("root2/file", "x");
  const std::string root = fs::canonical(root_).string();
  EXPECT_THAT(ResolveInside(root_, "file"),
              StatusIs(kInvalid, Eq(root_ + "/file: path escapes: expected one inside " + root +
                                    ", found " + fs::canonical(secret_).string() +
                                    " behind a link (cp -rL copies what links lead to)")));
  EXPECT_THAT(ResolveInside(root_, "up/secret"), StatusIs(kInvalid, HasSubstr("path escapes")));
  EXPECT_THAT(ResolveInside(root_, "neighbour/file"),
              StatusIs(kInvalid, HasSubstr("path escapes")));
}

TEST_F(ResolveInsideTest, TellsWhatIsMissingOrGoesInCircles) {
  EXPECT_THAT(ResolveInside(root_, "absent"),
              StatusIs(kNotFound, HasSubstr(root_ + "/absent: expected a file, found: No such")));
  EXPECT_THAT(ResolveInside(root_ + "3", "file"), StatusIs(kNotFound, HasSubstr("root3")));
  fs::create_symlink("circle", root_ + "/circle");
  EXPECT_THAT(ResolveInside(root_, "circle"), StatusIs(kInvalid, HasSubstr("symbolic links")));
}

class ScanModelFolderTest : public ::testing::Test {
 protected:
  FoundModels Scan() const {
    const auto models = ScanModelFolder(root_);
    EXPECT_THAT(models, IsOk());
    return models.value_or(FoundModels());
  }
  void Write(const std::string& file, const std::string& contents = "x") const {
    temp_.Write("root/" + file, contents);
  }

  const TempFolder temp_;
  const std::string outside_ = temp_.Write("outside/config.json", "x");
  const std::string file_ = temp_.Write("root/README.md", "x");
  const std::string root_ = fs::canonical(fs::path(file_).parent_path()).string();
};

TEST_F(ScanModelFolderTest, FindsNamesWithAndWithoutVersions) {
  Write("flat/config.json");
  Write("flat/onnx/model.onnx");
  Write("versioned/1/config.json");
  Write("versioned/0010/config.json");
  Write("versioned/notes/README.md");
  Write(".hidden/config.json");
  fs::create_directories(root_ + "/lost+found");
  Write("versioned/.3/config.json");
  const FoundModels models = Scan();
  EXPECT_THAT(models, ElementsAre(Key("flat"), Key("versioned")));
  const FoundModel& flat = models.at("flat");
  EXPECT_THAT(flat.status, IsOk());
  ASSERT_THAT(flat.versions, ElementsAre(Key(1)));
  EXPECT_THAT(flat.versions.at(1).status, IsOk());
  EXPECT_EQ(flat.versions.at(1).folder, root_ + "/flat");
  ASSERT_THAT(models.at("versioned").versions, ElementsAre(Key(1), Key(10)));
  EXPECT_EQ(models.at("versioned").versions.at(10).folder, root_ + "/versioned/0010");
}

TEST_F(ScanModelFolderTest, AnEmptyFolderOfModelsHasNone) { EXPECT_THAT(Scan(), IsEmpty()); }

TEST_F(ScanModelFolderTest, TellsWhatIsWrongWithAName) {
  fs::create_directories(root_ + "/empty");
  Write("other/weights.bin");
  Write("both/config.json");
  Write("both/2/config.json");
  Write("a b\xff/config.json");
  const FoundModels models = Scan();
  EXPECT_THAT(models.at("empty").status,
              StatusIs(kInvalid, Eq(root_ + "/empty: expected config.json, or folders named by a "
                                            "version, found nothing")));
  EXPECT_THAT(models.at("other").status, StatusIs(kInvalid, HasSubstr("found weights.bin")));
  EXPECT_THAT(models.at("both").status, StatusIs(kInvalid, HasSubstr("found both")));
  EXPECT_THAT(models.at("a b\\377").status,
              StatusIs(kInvalid, Eq("model name: expected at most 128 letters, digits, dots, "
                                    "dashes and underscores, found 'a b\\377'")));
}

TEST_F(ScanModelFolderTest, TellsWhatIsWrongWithAVersion) {
  Write("a/1/config.json");
  Write("a/2/model.safetensors");
  Write("a/3/config.json");
  Write("a/03/config.json");
  const auto versions = Scan().at("a").versions;
  ASSERT_THAT(versions, ElementsAre(Key(1), Key(2), Key(3)));
  EXPECT_THAT(versions.at(1).status, IsOk());
  EXPECT_THAT(versions.at(2).status,
              StatusIs(kNotFound, HasSubstr(root_ + "/a/2/config.json: expected a file")));
  EXPECT_THAT(versions.at(3).status,
              StatusIs(kInvalid, HasSubstr("expected one folder for version 3")));
}

TEST_F(ScanModelFolderTest, RefusesWhatLeadsOutside) {
  fs::create_symlink(temp_.path() + "/outside", root_ + "/name");
  Write("version/2/config.json");
  fs::create_symlink(temp_.path() + "/outside", root_ + "/version/1");
  fs::create_directories(root_ + "/config");
  fs::create_symlink(outside_, root_ + "/config/config.json");
  fs::create_symlink("version/2", root_ + "/alias");
  fs::create_symlink("nowhere", root_ + "/dangling");
  const FoundModels models = Scan();
  EXPECT_THAT(models.at("name").status, StatusIs(kInvalid, HasSubstr("path escapes")));
  EXPECT_THAT(models.at("version").versions.at(1).status,
              StatusIs(kInvalid, HasSubstr("version/1: path escapes")));
  EXPECT_THAT(models.at("version").versions.at(2).status, IsOk());
  EXPECT_THAT(models.at("config").versions.at(1).status,
              StatusIs(kInvalid, HasSubstr("config.json: path escapes")));
  EXPECT_EQ(models.at("alias").versions.at(1).folder, root_ + "/version/2") << "a link that stays";
  EXPECT_THAT(models.at("dangling").status, StatusIs(kNotFound, HasSubstr("dangling")));
}

TEST_F(ScanModelFolderTest, TheFingerprintTellsWritingReplacingAndAdding) {
  Write("a/config.json");
  const FoundModels before = Scan();
  EXPECT_EQ(before, Scan()) << "nothing changed";
  Write("a/config.json", "longer");
  const FoundModels written = Scan();
  EXPECT_NE(before, written);
  Write("a/new.json", "longer");
  fs::rename(root_ + "/a/new.json", root_ + "/a/config.json");
  const FoundModels replaced = Scan();
  EXPECT_NE(written, replaced);
  Write("a/model.safetensors");
  EXPECT_NE(replaced, Scan());
}

TEST_F(ScanModelFolderTest, TheFingerprintTellsWritingBelow) {
  Write("a/config.json");
  Write("a/weights/more/shard.safetensors");
  fs::create_symlink("/", root_ + "/a/out");
  const FoundModels before = Scan();
  EXPECT_EQ(before, Scan());
  Write("a/weights/more/shard.safetensors", "longer");
  const FoundModels written = Scan();
  EXPECT_NE(before, written);
  Write("a/weights/other.safetensors");
  EXPECT_NE(written, Scan());
}

TEST_F(ScanModelFolderTest, OfManyFilesBelowTheFirstAreLookedAt) {
  Write("a/config.json");
  for (int i = 0; i < 5000; ++i) {
    Write("a/data/" + std::to_string(10'000 + i));
  }
  const std::string fingerprint = Scan().at("a").versions.at(1).fingerprint;
  EXPECT_EQ(std::count(fingerprint.begin(), fingerprint.end(), '\n'), 2 + 4096);
}

TEST_F(ScanModelFolderTest, TellsThatTheFolderIsNone) {
  EXPECT_THAT(ScanModelFolder(root_ + "/absent"), StatusIs(kNotFound, HasSubstr("/absent")));
  EXPECT_THAT(ScanModelFolder(file_),
              StatusIs(kInvalid, HasSubstr("expected a folder that can be read, found: Not a")));
}

}  // namespace
}  // namespace attention
