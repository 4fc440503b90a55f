#include "client/cli/show/command_text.h"

#include <cstdio>
#include <string>
#include <vector>

#include "client/cli/flags/server_flags.h"
#include "gmock/gmock.h"
#include "tests/client/cli/parse_flags.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(WithoutSecretsTest, NoSpellingThatTheParserTakesShowsAValue) {
  const std::vector<std::string> spellings[] = {{"-m", "authorization=SECRET"},
                                                {"-mauthorization=SECRET"},
                                                {"--metadata", "authorization=SECRET"},
                                                {"--metadata=authorization=SECRET"},
                                                {"--metadata=", "authorization=SECRET"},
                                                {"-m", "a=b", "authorization=SECRET"},
                                                {"-ma=b", "authorization=SECRET"},
                                                {"--metadata=a=b", "c=d", "authorization=SECRET"},
                                                {"-m", "[a=b,authorization=SECRET]"},
                                                {"-m", "a=b", "-5=SECRET"},
                                                {"-m", "-x=SECRET"}};
  for (const std::vector<std::string>& spelling : spellings) {
    CLI::App app;
    ClientOptions options;
    AddServerFlags(app, options);
    EXPECT_EQ(ParseFlags(app, spelling), "");
    std::vector<std::string> words = {"attend", "bench"};
    words.insert(words.end(), spelling.begin(), spelling.end());
    words.insert(words.end(), {"--shape", "1x2x512", "--tag", "run=7"});
    EXPECT_THAT(WithoutSecrets(words),
                AllOf(Not(HasSubstr("SECRET")), HasSubstr("--shape 1x2x512 --tag run=7")));
  }
  EXPECT_EQ(WithoutSecrets({"attend", "-m", "a=b", "c=d", "-z", "1s", "--model=m"}),
            "attend -m a=... c=... -z 1s --model=m");
  EXPECT_EQ(WithoutSecrets({}), "");
}

/// What a shell makes of `text` as a word.
std::string ReadByShell(const std::string& text) {
  std::FILE* const shell = popen(("printf %s " + text).c_str(), "r");
  std::string read;
  for (int c = std::fgetc(shell); c != EOF; c = std::fgetc(shell)) {
    read.push_back(static_cast<char>(c));
  }
  pclose(shell);
  return read;
}

TEST(ShellQuotedTest, AShellReadsTheWordBack) {
  for (const char* const word :
       {"", "bench", "--rate=100:500", "it's", "''", "a b\tc", "$HOME", "`id`", "\\", "*.json",
        "[ab]", "{a,b}", "~", "!x", "a\nb", "#1", "\"q\"", "a;b|c&d<e>f(g)", "caf\u00e9"}) {
    EXPECT_EQ(ReadByShell(ShellQuoted(word)), word);
  }
  EXPECT_EQ(ShellQuoted("--rate=100:500"), "--rate=100:500");
}

}  // namespace
}  // namespace attention
