// What is printed of words that others wrote.
#include "client/cli/files/output_file.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

TEST(CheckOtherFileTest, AFileIsNotReplacedByAnOutputOfTheSameCommand) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.json";
  const std::string link = folder.path() + "/link.json";
  EXPECT_THAT(CheckOtherFile(path, {path}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       path + ": expected another file than " + path + ", which would be replaced"))
      << "before it exists";
  EXPECT_THAT(WriteOutput(path, "{}"), IsOk());
  std::filesystem::create_symlink(path, link);
  for (const std::string& same : {path, folder.path() + "/./a.json", link}) {
    EXPECT_FALSE(CheckOtherFile(same, {"", "-", path}).ok()) << same;
  }
  EXPECT_THAT(CheckOtherFile(folder.path() + "/b.json", {path, "", "-"}), IsOk());
  EXPECT_THAT(CheckOtherFile("/dev/null", {"/dev/null"}), IsOk());
}

TEST(PrintTextTest, LinesStayAndNothingControlsTheTerminal) {
  ::testing::internal::CaptureStdout();
  PrintText("one\x1b[31m\x07\ntwo\u009b1m\u202e\x9b\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "one␛[31m␇\ntwo<U+009B>1m<U+202E>\\x9B\n");
}

TEST(PrintErrorTest, IsALineThatControlsNothing) {
  ::testing::internal::CaptureStderr();
  PrintError("UNKNOWN: \x1b]0;pwn\x07");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "attend: UNKNOWN: ␛]0;pwn␇\n");
}

TEST(JsonTextTest, EscapesWhatATerminalObeysAndKeepsTheRest) {
  const nlohmann::json json = {
      {"text", "caf\u00e9 猫 \x1b \x7f \u009b \u202e \U000E0041 \U0001F600"}};
  const std::string text = JsonText(json);
  EXPECT_EQ(
      text,
      "{\"text\":\"caf\u00e9 猫 \\u001b \\u007f \\u009b \\u202e \\udb40\\udc41 \U0001F600\"}\n");
  EXPECT_EQ(nlohmann::json::parse(text), json);
  EXPECT_EQ(JsonText({{"a", "\xff"}}, 1), "{\n \"a\": \"\uFFFD\"\n}\n");
}

TEST(TerminalTextTest, CharactersMayComeInPartsAndControlNothing) {
  TerminalText terminal;
  EXPECT_EQ(terminal.Add("a\n\x1b"), "a\n\uFFFD");
  EXPECT_EQ(terminal.Add("\xe7\x8c"), "");
  EXPECT_EQ(terminal.Add("\xab!"), "猫!");
  EXPECT_EQ(terminal.Add("\xe2\x80"), "");
  EXPECT_EQ(terminal.Add("\xae"), "\uFFFD") << "U+202E";
  EXPECT_EQ(terminal.Add("\xf0\x9f"), "");
  EXPECT_EQ(terminal.Rest(), "\uFFFD\uFFFD");
}

}  // namespace
}  // namespace attention
