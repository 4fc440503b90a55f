#include "client/cli/show/bench_output.h"

#include <cstdio>
#include <string>

#include "gtest/gtest.h"

namespace attention {
namespace {

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
