#include "client/load/arrival_trace.h"

#include <fstream>

#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ArrivalTraceTest : public ::testing::Test {
 protected:
  absl::StatusOr<ArrivalTrace> Read(const std::string& text,
                                    absl::Duration warmup = absl::ZeroDuration(),
                                    int64_t max_requests = 0) {
    std::ofstream(path_) << text;
    return ReadArrivalTrace(path_, warmup, max_requests);
  }

  const TempFolder folder_;
  const std::string path_ = folder_.path() + "/schedule";
};

TEST_F(ArrivalTraceTest, TimesAloneAreRequestsOfOneKind) {
  const auto trace = Read("# recorded\n0\n1.5\n\n1.5  # twice\n20\r\n");
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->times, ElementsAre(milliseconds(0), microseconds(1500), microseconds(1500),
                                        milliseconds(20)));
  EXPECT_THAT(trace->kinds, IsEmpty());
  EXPECT_THAT(trace->lengths.lengths, IsEmpty());
}

TEST_F(ArrivalTraceTest, LengthsAreKindsInAscendingOrder) {
  const auto trace = Read("0, 512\n3 8\n4\t512\n9,64\n");
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->kinds, ElementsAre(2, 0, 2, 1));
  EXPECT_THAT(trace->lengths.lengths, ElementsAre(8, 64, 512));
  EXPECT_THAT(trace->lengths.weights, ElementsAre(1, 1, 2));
  EXPECT_EQ(trace->lengths.text, "schedule:" + path_);
}

TEST_F(ArrivalTraceTest, KeepsTheWarmupAndTheFirstRequestsAfterIt) {
  const auto trace =
      Read("0 1\n5 2\n10 3\n10 3\n10 4\n20 5\n", absl::Milliseconds(10), /*max_requests=*/2);
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->times,
              ElementsAre(milliseconds(0), milliseconds(5), milliseconds(10), milliseconds(10)));
  EXPECT_THAT(trace->lengths.lengths, ElementsAre(1, 2, 3)) << "of requests that are kept";
  EXPECT_THAT(Read("0\nsoon\n", absl::ZeroDuration(), 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2")))
      << "all lines are checked";
}

TEST_F(ArrivalTraceTest, RefusesAWarmupThatLeavesNothing) {
  EXPECT_THAT(Read("0\n1500\n", absl::Seconds(2)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected requests after the warm-up of 2s (--warmup), found the "
                                 "last one after 1.5s")));
}

TEST_F(ArrivalTraceTest, NamesTheLineThatIsWrong) {
  const struct {
    const char* text;
    const char* words;
  } cases[] = {
      {"0\nsoon\n", ", line 2: expected milliseconds since the start, from 0 on, found \"soon\""},
      {"-1\n", ", line 1: expected milliseconds since the start, from 0 on, found \"-1\""},
      {"nan\n", ", line 1: expected milliseconds"},
      {"0\n\n7\n5\n", ", line 4: expected milliseconds since the start, from 7 on, found \"5\""},
      {"0 3\n1\n",
       ", line 2: expected a time and, on all lines or on none, a length, found 1 word"},
      {"0\n1 3\n",
       ", line 2: expected a time and, on all lines or on none, a length, found 2 words"},
      {"0 0\n", ", line 1: expected a length of 1 to 100000000, found \"0\""},
      {"0 3 x\n",
       ", line 1: expected a time and, on all lines or on none, a length, found 3 words"},
      {"# nothing\n", ": expected times, found none"},
  };
  for (const auto& [text, words] : cases) {
    EXPECT_THAT(Read(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path_ + words)))
        << text;
  }
}

TEST_F(ArrivalTraceTest, NamesTheFileThatIsMissing) {
  EXPECT_THAT(
      ReadArrivalTrace("absent.txt"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent.txt: No such file or directory")));
}

}  // namespace
}  // namespace attention
