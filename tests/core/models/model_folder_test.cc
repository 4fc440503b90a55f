#include "core/models/model_folder.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

namespace fs = std::filesystem;
using ::testing::Eq;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

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
                                    ", found " + fs::canonical(secret_).string())));
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

}  // namespace
}  // namespace attention
