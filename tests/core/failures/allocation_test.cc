// An allocation that fails fails the work that needed it, and nothing else: no process ends, and
// no object is left half changed. This program replaces operator new.
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/models/model.h"
#include "core/models/model_folder.h"
#include "core/models/model_repository.h"
#include "core/tokenizer/merges.h"
#include "core/tokenizer/pattern.h"
#include "core/tokenizer/steps.h"
#include "core/tokenizer/trie.h"
#include "core/tokenizer/vocabulary.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

thread_local int64_t allocations_left = -1;  // before the one that fails; -1: none fails

/// Runs the work with its first allocation failing, then its second, and so on until it ends.
/// `check` is called after each failure. Returns the number of failures.
int64_t FailEach(const std::function<void()>& work, const std::function<void()>& check = [] {}) {
  for (int64_t failures = 0;; ++failures) {
    allocations_left = failures;
    try {
      work();
    } catch (const std::bad_alloc&) {
    }
    if (std::exchange(allocations_left, -1) >= 0) {
      return failures;
    }
    check();
  }
}

TEST(AllocationTest, AVocabularyAndItsMergesSurvive) {
  nlohmann::json model = {{"merges", nlohmann::json::array()}};
  for (unsigned i = 0; i < 40; ++i) {
    const std::string token = "token" + std::to_string(i);
    model["vocab"][token] = 2u * i;
    model["vocab"][token + token] = 2u * i + 1;
    model["merges"].push_back(token + " " + token);
  }
  const JsonObject object = *JsonObject::Create(model, "model");
  EXPECT_GT(FailEach([&] {
              const Vocabulary vocabulary = *Vocabulary::Parse(object);
              const Merges merges = *Merges::Parse(object, vocabulary, 0);
            }),
            100);
}

TEST(AllocationTest, TheStepsOfATokenizerSurvive) {
  const nlohmann::json file = nlohmann::json::parse(R"({"normalizer": {"type": "Sequence",
      "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}})");
  const JsonObject object = *JsonObject::Create(file, "");
  EXPECT_GT(
      FailEach([&] { ParseSteps(object, "normalizer", "normalizers").status().IgnoreError(); }), 5);
}

TEST(AllocationTest, ATrieSurvives) {
  Trie trie;
  int32_t next = 0;
  const auto add_the_rest = [&] {
    for (; next < 40; ++next) {
      trie.Add("token" + std::to_string(next), next);
    }
  };
  EXPECT_GT(FailEach(add_the_rest), 3);
  for (int32_t i = 0; i < 40; ++i) {
    const auto found = trie.FindLongest("token" + std::to_string(i));
    ASSERT_TRUE(found.has_value()) << i;
    EXPECT_EQ(found->value, i);
  }
}

// AddressSanitizer tells whether ICU's memory is given back.
TEST(AllocationTest, ASearchForAPatternSurvives) {
  const Pattern pattern = *Pattern::FromRegex("a+");
  EXPECT_GT(FailEach([&] {
              std::vector<std::string> found;
              const auto keep = [&](const Span& span) {
                found.emplace_back(100 + span.begin, 'a');
                return absl::OkStatus();
              };
              pattern.Find("aa b aaa", keep).IgnoreError();
            }),
            3);
}

TEST(AllocationTest, AFolderThatIsScannedSurvives) {
  const TempFolder folder;
  for (const char* name : {"a", "b", "a_name_that_is_longer_than_any_that_a_string_keeps_inside"}) {
    folder.Write(std::string(name) + "/1/config.json", "{}");
    folder.Write(std::string(name) + "/2/config.json", "{}");
  }
  EXPECT_GT(FailEach([&] { ScanModelFolder(folder.path()).status().IgnoreError(); }), 50);
}

TEST(AllocationTest, AModelIsPublishedOrNotThere) {
  const std::string name(100, 'a');
  const std::shared_ptr<const Model> model =
      *Model::CreateSeeded({.name = name, .d_model = 8, .num_heads = 1});
  ModelRepository repository;
  EXPECT_GT(FailEach([&] { repository.Publish(model); },
                     [&] {
                       EXPECT_EQ(repository.Find(name), nullptr);
                       EXPECT_TRUE(repository.List().empty());
                     }),
            1);
  EXPECT_EQ(repository.Find(name), model);
}

}  // namespace
}  // namespace attention

void* operator new(size_t size) {
  int64_t& left = attention::allocations_left;
  void* const memory = left < 0 || left-- > 0 ? std::malloc(size > 0 ? size : 1) : nullptr;
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
void* operator new[](size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
