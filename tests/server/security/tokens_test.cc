#include "server/security/tokens.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "gmock/gmock.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Of "one" and "two".
constexpr char kOne[] = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
constexpr char kTwo[] = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";

class TokensTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& entries) const {
    const std::string next = folder_.Write("next", R"({"tokens": [)" + entries + "]}");
    std::filesystem::rename(next, folder_.path() + "/tokens.json");
    return folder_.path() + "/tokens.json";
  }
  static std::string Entry(const std::string& hash, const std::string& more = "") {
    return R"({"sha256": ")" + hash + R"(", "tenant": "search")" + more + "}";
  }

  const TempFolder folder_;
};

TEST_F(TokensTest, ATokenStandsForItsEntry) {
  const auto store = TokenStore::Open(Write(
      Entry(kOne) + "," +
      Entry(kTwo, R"(, "models": ["bert-*", "gpt2"], "admin": true, "max_priority": "low")")));
  ASSERT_THAT(store, IsOk());
  const auto one = (*store)->Find("one");
  ASSERT_THAT(one, IsOk());
  EXPECT_EQ(one->tenant, "search");
  EXPECT_FALSE(one->has_admin_right);
  EXPECT_TRUE(one->MayUse("anything"));
  EXPECT_EQ(one->LimitPriority(Priority::kHigh), Priority::kNormal)
      << "the token does not say high";
  const auto two = (*store)->Find("two");
  ASSERT_THAT(two, IsOk());
  EXPECT_TRUE(two->has_admin_right);
  EXPECT_TRUE(two->MayUse("bert-base"));
  EXPECT_TRUE(two->MayUse("gpt2"));
  EXPECT_FALSE(two->MayUse("gpt2-large"));
  EXPECT_EQ(two->LimitPriority(Priority::kHigh), Priority::kLow);
  EXPECT_EQ(two->LimitPriority(Priority::kLow), Priority::kLow);
}

TEST_F(TokensTest, AFileIsReadOnceForEachChange) {
  FileWatch watch({Write(Entry(kOne))}, "the rest stays");
  int reads = 0;
  const auto read = [&] {
    ++reads;
    return absl::OkStatus();
  };
  watch.Update(read);
  watch.Update(read);
  EXPECT_EQ(reads, 1);
  Write(Entry(kTwo));
  watch.Update(read);
  EXPECT_EQ(reads, 2);
}

TEST_F(TokensTest, AFileThatCouldNotBeReadIsReadAgainButNotAtEachLook) {
  FileWatch watch({Write(Entry(kOne))}, "the rest stays");
  int reads = 0;
  absl::Status result = absl::InvalidArgumentError("wrong");
  const auto read = [&] {
    ++reads;
    return result;
  };
  ::testing::internal::CaptureStderr();
  for (int look = 0; look < 10'000; ++look) {
    watch.Update(read);
  }
  const std::string logged = ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(watch.are_valid());
  EXPECT_LT(reads, 1000) << "once a second";
  EXPECT_THAT(logged, HasSubstr("the rest stays: wrong\n"));
  EXPECT_EQ(std::count(logged.begin(), logged.end(), '\n'), 1) << logged;
  result = absl::OkStatus();
  EXPECT_TRUE(Eventually([&] {
    watch.Update(read);
    return watch.are_valid();
  })) << "though the file is as it was";
}

TEST_F(TokensTest, WhileOneThreadReadsTheOthersGoOn) {
  FileWatch watch({Write(Entry(kOne))}, "the rest stays");
  int reads = 0;
  watch.Update([&] {
    ++reads;
    std::thread([&] {
      Write(Entry(kTwo));
      watch.Update([&] {
        ++reads;
        return absl::OkStatus();
      });
      EXPECT_TRUE(watch.are_valid());
    }).join();
    EXPECT_EQ(reads, 1);
    return absl::OkStatus();
  });
  watch.Update([&] {
    ++reads;
    return absl::OkStatus();
  });
  EXPECT_EQ(reads, 2) << "the change was not missed";
}

TEST_F(TokensTest, AfterAnExceptionAFileIsReadAtOnce) {
  FileWatch watch({Write(Entry(kOne))}, "the rest stays");
  EXPECT_THROW(watch.Update([]() -> absl::Status { throw std::bad_alloc(); }), std::bad_alloc);
  int reads = 0;
  watch.Update([&] {
    ++reads;
    return absl::OkStatus();
  });
  EXPECT_EQ(reads, 1);
}

TEST_F(TokensTest, OthersAndExpiredOnesAreRefused) {
  const auto store =
      TokenStore::Open(Write(Entry(kOne, R"(, "expires": "2021-01-01T00:00:00Z")") + "," +
                             Entry(kTwo, R"(, "expires": "2120-01-01T00:00:00Z")")));
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(
      (*store)->Find("one"),
      StatusIs(absl::StatusCode::kUnauthenticated,
               "authorization: expected a token that has not expired, found one of search that "
               "expired at 2021-01-01T00:00:00+00:00"));
  EXPECT_THAT((*store)->Find("two"), IsOk());
  for (const std::string other : {"", "One", kOne}) {
    EXPECT_THAT((*store)->Find(other),
                StatusIs(absl::StatusCode::kUnauthenticated,
                         "authorization: expected a token that this server knows, found an "
                         "unknown one"))
        << other;
  }
}

TEST_F(TokensTest, TheFileIsReadAgainWhenItChanges) {
  const auto store = TokenStore::Open(Write(Entry(kOne)));
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Find("one"), IsOk());
  EXPECT_TRUE((*store)->IsFileValid());
  Write("broken");
  const absl::Time end = absl::Now() + absl::Minutes(5);
  ::testing::internal::CaptureStderr();
  const absl::Time looked = absl::Now() + absl::Milliseconds(1100);
  while (absl::Now() < looked) {
    ASSERT_THAT((*store)->Find("one"), IsOk()) << "what is wrong changes nothing";
  }
  EXPECT_THAT((*store)->Find("one"), IsOk());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the tokens that were read before stay in use"));
  EXPECT_FALSE((*store)->IsFileValid());
  Write(Entry(kTwo));
  while (!(*store)->Find("two").ok() && absl::Now() < end) {
  }
  EXPECT_THAT((*store)->Find("two"), IsOk());
  EXPECT_TRUE((*store)->IsFileValid());
  EXPECT_THAT((*store)->Find("one").status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(TokensTest, APipeInPlaceOfTheFileIsNotReadFrom) {
  const std::string path = Write(Entry(kOne));
  const auto store = TokenStore::Open(path);
  ASSERT_THAT(store, IsOk());
  ASSERT_EQ(std::remove(path.c_str()), 0);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Eventually([&] { return !(*store)->IsFileValid(); }));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("expected a file, found"));
  EXPECT_THAT((*store)->Find("one"), IsOk());
}

TEST_F(TokensTest, ErrorsNameTheEntryAndTheKey) {
  const std::pair<std::string, std::string> cases[] = {
      {Entry("ABC"),
       "tokens[0]: sha256: expected 64 lower-case hexadecimal digits, found a text of 3 "
       "bytes"},
      {Entry(kOne) + "," + Entry(kOne),
       "tokens[1]: sha256: expected a hash that no earlier entry has, found one that has an entry "
       "already"},
      {"{}", "tokens[0]: expected sha256 and tenant, found only one or neither"},
      {Entry(kOne, R"(, "model": ["a"])"), "tokens[0]: model: no such key; the nearest is models"},
      {Entry(kOne, R"(, "models": "a")"),
       "tokens[0]: models: expected an array of names or patterns, found a text of 1 bytes"},
      {Entry(kOne, R"(, "models": {"a": "b"})"),
       "tokens[0]: models: expected an array of names or patterns"},
      {Entry(kOne, R"(, "models": {})"),
       "tokens[0]: models: expected an array of names or patterns"},
      {Entry(kOne, R"(, "models": null)"),
       "tokens[0]: models: expected an array of names or patterns, found null"},
      {Entry(kOne, R"(, "admin": false, "admin": true)"), "admin: given twice"},
      {Entry(kOne, R"(, "models": ["a", ""])"),
       "tokens[0]: models[1]: expected a name or pattern, found a text of 0 bytes"},
      {Entry(kOne, R"(, "admin": 1)"), "tokens[0]: admin: expected true or false, found number"},
      {Entry(kOne, R"(, "expires": "soon")"),
       "tokens[0]: expires: expected a time such as 2027-01-31T00:00:00Z, found a text of 4 "
       "bytes"},
      {Entry(kOne, R"(, "max_priority": "highest")"),
       "tokens[0]: max_priority: expected high, normal or low, found a text of 7 bytes"}};
  for (const auto& [entries, error] : cases) {
    EXPECT_THAT(ReadTokenFile(Write(entries)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(error)))
        << entries;
  }
  EXPECT_THAT(
      ReadTokenFile(folder_.Write("list.json", "[]")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("list.json: expected a JSON")));
  EXPECT_THAT(ReadTokenFile("/none"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
}

TEST_F(TokensTest, ATokenThatSaysHighHasIt) {
  const auto store = TokenStore::Open(Write(Entry(kOne, R"(, "max_priority": "high")")));
  ASSERT_THAT(store, IsOk());
  EXPECT_EQ((*store)->Find("one")->LimitPriority(Priority::kHigh), Priority::kHigh);
}

TEST_F(TokensTest, NoErrorSaysWhatMayBeAToken) {
  const std::string token = "attend_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlYw";
  const std::string quoted = "\"" + token + "\"";
  const std::string contents[] = {
      Entry(token),
      Entry(kOne, ", \"models\": " + quoted),
      Entry(kOne, ", \"models\": {\"a\": " + quoted + "}"),
      Entry(kOne, ", \"models\": [[" + quoted + "]]"),
      Entry(kOne, ", \"admin\": " + quoted),
      Entry(kOne, ", \"expires\": " + quoted),
      Entry(kOne, ", \"max_priority\": " + quoted),
      Entry(kOne, ", " + quoted + ": true"),
      "{" + quoted + ": \"search\"}",
      quoted,
  };
  for (const std::string& content : contents) {
    const absl::Status status = ReadTokenFile(Write(content)).status();
    EXPECT_FALSE(status.ok()) << content;
    EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("c2VjcmV0"))) << content;
  }
  EXPECT_THAT(ReadTokenFile(folder_.Write("raw", token)).status().ToString(),
              ::testing::Not(HasSubstr("c2VjcmV0")));
}

TEST_F(TokensTest, NoModelsIsNone) {
  const auto table = ReadTokenFile(Write(Entry(kOne, R"(, "models": [])")));
  ASSERT_THAT(table, IsOk());
  EXPECT_FALSE(table->begin()->second.caller.MayUse("demo"));
}

TEST_F(TokensTest, WhatIsMadeIsKnown) {
  const std::string made = MakeAccessToken("search");
  const size_t begin = made.find("attend_");
  const std::string token = made.substr(begin, made.find('\n', begin) - begin);
  EXPECT_THAT(token, SizeIs(::testing::Ge(50)));
  const auto store = TokenStore::Open(Write(made.substr(made.rfind('{'))));
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Find(token), IsOk());
  EXPECT_NE(MakeAccessToken("search"), made);
}

}  // namespace
}  // namespace attention
