#include "server/log/log_sink.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/runtime/text_file.h"
#include "gmock/gmock.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

constexpr size_t kMaxBytes = 100'000;

class LogSinkTest : public ::testing::Test {
 protected:
  LogSinkTest() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~LogSinkTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }

  // Up to a line that ends with `last`.
  std::string ReadUpTo(const std::string& last) {
    std::string text;
    std::array<char, 4096> piece;
    while (!text.ends_with(last)) {
      const ssize_t bytes = read(ends_[0], piece.data(), piece.size());
      if (bytes <= 0) {
        ADD_FAILURE() << "the pipe ended";
        return text;
      }
      text.append(piece.data(), static_cast<size_t>(bytes));
    }
    return text;
  }

  std::array<int, 2> ends_ = {};
};

std::string LeftOut(int64_t lines) { return absl::StrCat("left out ", lines, "\n"); }

TEST_F(LogSinkTest, WritesLinesInTheirOrder) {
  LogSink sink(ends_[1], kMaxBytes, LeftOut);
  sink.Put("one\n");
  sink.Put("two\n");
  EXPECT_TRUE(sink.Flush(std::chrono::minutes(1)));
  EXPECT_EQ(ReadUpTo("two\n"), "one\ntwo\n");
  EXPECT_EQ(sink.lines_left_out(), 0);
}

TEST_F(LogSinkTest, NobodyWaitsForAReaderAndWhatIsLeftOutIsSaid) {
  LogSink sink(ends_[1], kMaxBytes, LeftOut);
  constexpr int64_t kLines = 10'000;
  const std::string line = std::string(99, 'x') + "\n";
  for (int64_t i = 0; i < kLines; ++i) {
    sink.Put(line);  // which returns, although nobody reads
  }
  EXPECT_LE(sink.waiting_bytes(), kMaxBytes);
  EXPECT_FALSE(sink.Flush(std::chrono::nanoseconds(0)));
  const int64_t left_out = sink.lines_left_out();
  EXPECT_GT(left_out, kLines / 2);
  const std::string said = LeftOut(left_out);
  const std::string text = ReadUpTo(said);
  EXPECT_EQ(static_cast<int64_t>(text.size() - said.size()), (kLines - left_out) * 100)
      << "whole lines, and every one that was not left out";
  sink.Put("it flows\n");
  EXPECT_EQ(ReadUpTo("\n"), "it flows\n");
}

TEST_F(LogSinkTest, SaysLaterWhatThereWasNoMemoryToSay) {
  LogSink sink(ends_[1], kMaxBytes, [tries = 0](int64_t lines) mutable {
    return ++tries == 1 ? throw std::bad_alloc() : LeftOut(lines);
  });
  const std::string line = std::string(99, 'x') + "\n";
  size_t accepted = 0;
  for (; sink.lines_left_out() == 0; ++accepted) {
    sink.Put(line);
  }
  --accepted;  // the last was left out
  std::string text;
  while (text.size() < accepted * line.size()) {
    text += ReadUpTo("\n");
  }
  // Until the thread has taken note of what it wrote, another line might be left out, too.
  EXPECT_TRUE(sink.Flush(std::chrono::minutes(1)));
  sink.Put(line);
  while (text.find("left out") == std::string::npos) {
    text += ReadUpTo("\n");
  }
  EXPECT_THAT(text, ::testing::HasSubstr(LeftOut(1)));
  EXPECT_EQ(sink.lines_left_out(), 1);
}

TEST_F(LogSinkTest, EndsAlthoughNobodyReads) {
  LogSink sink(ends_[1], kMaxBytes, LeftOut);
  for (int i = 0; i < 1000; ++i) {
    sink.Put(std::string(99, 'x') + "\n");
  }
}

// As on a disk that was full for a while.
TEST_F(LogSinkTest, ALineThatWasCutIsEnded) {
  const TempFolder folder;
  const std::string path = folder.Write("log", "");
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(file, 0);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto earlier = signal(SIGXFSZ, SIG_IGN);
  {
    LogSink sink(file, kMaxBytes, LeftOut);
    rlimit small = before;
    small.rlim_cur = 10;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    sink.Put("one\n");
    EXPECT_TRUE(sink.Flush(std::chrono::minutes(1)));
    sink.Put("two three\n");
    EXPECT_TRUE(sink.Flush(std::chrono::minutes(1)));
    sink.Put("four\n");
    EXPECT_TRUE(sink.Flush(std::chrono::minutes(1)));
    EXPECT_EQ(sink.lines_left_out(), 2);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    sink.Put("five\n");
    EXPECT_TRUE(sink.Flush(std::chrono::minutes(1)));
    EXPECT_EQ(sink.lines_left_out(), 2);
  }
  signal(SIGXFSZ, earlier);
  close(file);
  EXPECT_EQ(*ReadTextFile(path, 1000), "one\ntwo th\nfive\n");
}

TEST_F(LogSinkTest, LinesThatCannotBeWrittenCountAsLeftOut) {
  const int null = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(null, 0);
  {
    LogSink sink(null, kMaxBytes, LeftOut);
    sink.Put("one\n");
    sink.Put("two\n");
    EXPECT_TRUE(sink.Flush(std::chrono::minutes(1)));
    EXPECT_EQ(sink.lines_left_out(), 2);
  }
  close(null);
}

}  // namespace
}  // namespace attention
