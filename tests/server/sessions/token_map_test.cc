// Resume tokens and the order in which parked sessions end, by themselves: what is found, and that
// nothing is searched one by one.
#include "server/sessions/token_map.h"

#include <chrono>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "server/sessions/end_order.h"

namespace attention {
namespace {

struct Number {
  std::string& earlier_token() { return earlier; }

  int number = 0;
  std::string earlier = {};
};
using Numbers = TokenMap<Number>;

int NumberOf(Numbers& numbers, const std::string& token) {
  const auto found = numbers.Find(token);
  return found == numbers.end() ? -1 : found->second.number;
}

TEST(TokenMapTest, AThingIsFoundByItsTokenAndByTheEarlierOne) {
  Numbers numbers("b", {1, "a"});
  Numbers other("d", {2, ""});
  numbers.Merge(other);
  EXPECT_EQ(NumberOf(numbers, "a"), 1);
  EXPECT_EQ(NumberOf(numbers, "b"), 1);
  EXPECT_EQ(NumberOf(numbers, "c"), -1);
  EXPECT_EQ(NumberOf(numbers, "d"), 2);
  EXPECT_EQ(NumberOf(numbers, ""), -1);
  EXPECT_EQ(numbers.FindCurrent("a"), numbers.end());
  EXPECT_EQ(numbers.FindCurrent("b")->second.number, 1);
  EXPECT_EQ(numbers.size(), 2);
}

TEST(TokenMapTest, AForgottenTokenFindsNothing) {
  Numbers numbers("b", {1, "a"});
  numbers.ForgetEarlierToken(numbers.FindCurrent("b"));
  EXPECT_EQ(NumberOf(numbers, "a"), -1);
  EXPECT_EQ(NumberOf(numbers, "b"), 1);
}

TEST(TokenMapTest, WhatIsRemovedLeavesNoToken) {
  Numbers numbers("b", {1, "a"});
  Numbers other("c", {2, "b"});  // the next token of the same session, under which it is held now
  numbers.Merge(other);
  EXPECT_EQ(numbers.Remove(numbers.FindCurrent("b")).number, 1);
  EXPECT_EQ(NumberOf(numbers, "a"), -1);
  EXPECT_EQ(NumberOf(numbers, "b"), 2);
  EXPECT_EQ(numbers.Remove(numbers.Find("b")).number, 2);
  EXPECT_EQ(NumberOf(numbers, "b"), -1);
  EXPECT_EQ(numbers.size(), 0);
}

// A session whose earlier token is used twice: it is parked and taken again before its first stream
// has given it up.
TEST(TokenMapTest, AnEarlierTokenFindsTheThingThatCameLast) {
  Numbers numbers("b", {1, "a"});
  Numbers other("c", {2, "a"});
  numbers.Merge(other);
  EXPECT_EQ(NumberOf(numbers, "a"), 2);
  numbers.Remove(numbers.FindCurrent("b"));
  EXPECT_EQ(NumberOf(numbers, "a"), 2);
  numbers.Remove(numbers.FindCurrent("c"));
  EXPECT_EQ(NumberOf(numbers, "a"), -1);
}

TimePoint After(int64_t milliseconds) { return TimePoint(std::chrono::milliseconds(milliseconds)); }

std::string FirstOf(const EndOrder& order, const std::set<std::string>& accounts) {
  const EndOrder::Ends::value_type* const first =
      order.First([&](const std::string& account) { return accounts.contains(account); });
  return first == nullptr ? "none" : first->second;
}

TEST(EndOrderTest, TheFirstOfTheseAccounts) {
  EndOrder order;
  for (const auto& [account, end, token] :
       {std::tuple("x", 3, "x3"), {"x", 1, "x1"}, {"y", 2, "y2"}, {"x", 1, "x1 too"}}) {
    EndOrder one(account, After(end), token, end);
    order.Merge(one);
  }
  EXPECT_EQ(FirstOf(order, {"x", "y"}), "x1");
  EXPECT_EQ(FirstOf(order, {"y"}), "y2");
  EXPECT_EQ(FirstOf(order, {"z"}), "none");
  EXPECT_EQ(order.BytesOf("x"), 5);
  EXPECT_EQ(order.BytesOf("z"), 0);
  EXPECT_EQ(order.bytes(), 7);
  order.Remove("x", After(1), "x1 too", 1);
  order.Remove("x", After(1), "x1", 1);
  EXPECT_EQ(FirstOf(order, {"x", "y"}), "y2");
  order.Remove("y", After(2), "y2", 2);
  EXPECT_EQ(FirstOf(order, {"x", "y"}), "x3");
  EXPECT_EQ(FirstOf(order, {"y"}), "none");
  EXPECT_EQ(order.bytes(), 3);
}

TEST(EndOrderTest, LooksAtEachAccountAtMostOnce) {
  EndOrder order;
  for (int i = 0; i < 1000; ++i) {
    EndOrder one(i % 2 == 0 ? "x" : "y", After(i), std::to_string(i), 1);
    order.Merge(one);
  }
  for (int i = 0; i < 1000; ++i) {
    int looked = 0;
    const auto* const first = order.First([&](const std::string& /*account*/) {
      ++looked;
      return true;
    });
    ASSERT_EQ(first->second, std::to_string(i));
    ASSERT_LE(looked, 2);
    order.Remove(i % 2 == 0 ? "x" : "y", After(i), std::to_string(i), 1);
  }
}

}  // namespace
}  // namespace attention
