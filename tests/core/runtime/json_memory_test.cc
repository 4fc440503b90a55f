// The memory that JSON text takes before its values are kept.
#include <string>

#include "core/runtime/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/support/allocation_meter.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

std::string ListOf(int objects) {
  std::string text = "[";
  for (int i = 0; i < objects; ++i) {
    text += i > 0 ? R"(,{"name":[0.5,"text"]})" : R"({"name":[0.5,"text"]})";
  }
  return text + "]";
}

// So no check can look again at what it has read, however many values there are.
TEST(JsonMemoryTest, TheChecksKeepNoValue) {
  const auto peak_bytes = [](int objects) {
    const std::string text = ListOf(objects);
    const AllocationMeter meter;
    EXPECT_THAT(CheckJsonText(text, "file.json"), IsOk());
    EXPECT_EQ(RepeatedJsonName(text), std::nullopt);
    return meter.peak_bytes();
  };
  EXPECT_EQ(peak_bytes(2000), peak_bytes(1000));
}

TEST(JsonMemoryTest, TextThatIsRefusedIsNotParsed) {
  const std::string deep = ListOf(1000) + std::string(kMaxJsonDepth + 1, '[');
  const std::string nested = "[" + ListOf(1000) + "," + std::string(kMaxJsonDepth, '[');
  for (const std::string& text : {deep, nested}) {
    const AllocationMeter meter;
    EXPECT_FALSE(ParseJson(text, "file.json").ok());
    EXPECT_LE(meter.peak_bytes(), 4096);
  }
}

}  // namespace
}  // namespace attention
