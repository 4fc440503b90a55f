#include "server/scheduling/account_shares.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace attention {
namespace {

/// Adds pieces until one is refused.
void Fill(AccountShares& shares, const std::string& account, int64_t piece) {
  while (shares.Allows(account, piece)) {
    shares.Add(account, piece);
  }
}

TEST(AccountSharesTest, OneAloneHasEightNinthsWhateverTheSizeOfItsPieces) {
  for (const int64_t piece : {1, 100, 250, 400}) {
    AccountShares shares(900);
    Fill(shares, "greedy", piece);
    EXPECT_EQ(shares.HeldBy("greedy"), 800 / piece * piece);
    EXPECT_TRUE(shares.Allows("modest", 100));
  }
}

TEST(AccountSharesTest, WhatIsAskedForIsNotFree) {
  EXPECT_TRUE(AccountShares::Allows(700, 100, 700, 900));
  EXPECT_FALSE(AccountShares::Allows(700, 101, 700, 900));
  EXPECT_FALSE(AccountShares::Allows(1, 100, 800, 900)) << "it would leave nothing";
}

TEST(AccountSharesTest, TheFirstPieceMayBeAll) {
  AccountShares shares(900);
  EXPECT_TRUE(shares.Allows("large", 900));
  shares.Add("large", 900);
  EXPECT_FALSE(shares.Allows("large", 1));
}

TEST(AccountSharesTest, OfUpToEightPlacesOneMayHaveAll) {
  for (const auto& [places, held] : {std::pair(2, 2), std::pair(8, 8), std::pair(9, 8)}) {
    AccountShares shares(places);
    // AccountShares leaves it to its users to compare what is asked for with the limit.
    while (shares.used() < places && shares.Allows("greedy", 1)) {
      shares.Add("greedy", 1);
    }
    EXPECT_EQ(shares.HeldBy("greedy"), held);
  }
}

// Names of accounts come from callers: they must not fill the memory.
TEST(AccountSharesTest, WhoHoldsNothingIsForgotten) {
  AccountShares shares(900);
  for (const char* const account : {"one", "two", "three"}) {
    shares.Prepare(account);
    shares.Add(account, 100);
  }
  EXPECT_EQ(shares.accounts(), 3);
  shares.Remove("one", 100);
  shares.Remove("two", 99);
  EXPECT_EQ(shares.accounts(), 2);
  EXPECT_EQ(shares.HeldBy("two"), 1);
  shares.Add("three", -100);
  shares.Add("nobody", 0);
  EXPECT_EQ(shares.accounts(), 1);
}

TEST(AccountSharesTest, WhoIsNobodyMayHaveAnything) {
  AccountShares shares(900);
  Fill(shares, "greedy", 1);
  EXPECT_TRUE(shares.Allows("", 10'000));
}

}  // namespace
}  // namespace attention
