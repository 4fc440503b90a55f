// The protocol's rules about contents, held to by bytes that were put together by hand: attention
// of one row to one key gives that key's value.
#include "absl/strings/str_cat.h"
#include "proto/codec/status.h"
#include "tests/proto/wire_bytes.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

std::string Delimited(int field, const std::string& body) {
  return Bytes({field << 3 | 2, static_cast<int>(body.size())}) + body;
}

// Field 5 of a request or a reply: name 1, datatype 2, shape 3.
std::string TensorHeader(const std::string& name, const std::string& shape,
                         const std::string& rest = "") {
  return Delimited(5, Delimited(1, name) + Delimited(2, "FP32") + Delimited(3, shape) + rest);
}

const std::string kOne = Bytes({0, 0, 0x80, 0x3f});   // 1.0f
const std::string kFive = Bytes({0, 0, 0xa0, 0x40});  // 5.0f
const std::string kShape = Bytes({1, 1, 1, 1});
const std::string kModel = Delimited(1, "attention");
// In this order.
const std::string kInputs =
    TensorHeader("value", kShape) + TensorHeader("query", kShape) + TensorHeader("key", kShape);
const std::string kContents = Delimited(7, kFive) + Delimited(7, kOne) + Delimited(7, kOne);

class WireRulesTest : public ::testing::Test {
 protected:
  /// Returns the bytes of the reply.
  absl::StatusOr<std::string> Infer(const std::string& request) {
    return InferClient::CallWithBytes(server_.NewChannel(), "ModelInfer", Cut(request, 7));
  }
  void ExpectInvalid(const std::string& request, const std::string& text) {
    EXPECT_THAT(Infer(request), StatusIs(absl::StatusCode::kInvalidArgument, text));
  }

  InProcessServer server_;
};

const std::string kHead = kModel + Delimited(2, "1");
const std::string kOutput = TensorHeader("output", kShape);

TEST_F(WireRulesTest, RawEntriesFollowTheOrderOfTheInputs) {
  EXPECT_EQ(*Infer(kModel + kInputs + kContents), kHead + kOutput + Delimited(6, kFive));
  EXPECT_EQ(*Infer(kContents + kInputs + kModel), kHead + kOutput + Delimited(6, kFive))
      << "whatever the order of the fields";
}

TEST_F(WireRulesTest, TypedContentsNeedNoRawEntries) {
  const auto with = [](const std::string& value) {
    return Delimited(5, Delimited(6, value));  // contents, fp32_contents
  };
  const std::string inputs = TensorHeader("query", kShape, with(kOne)) +
                             TensorHeader("key", kShape, with(kOne)) +
                             TensorHeader("value", kShape, with(kFive));
  EXPECT_EQ(*Infer(kModel + inputs), kHead + kOutput + Delimited(6, kFive)) << "the reply is raw";
  ExpectInvalid(kModel + inputs + kContents,
                "input \"query\": expected no contents beside raw_input_contents, found some");
}

TEST_F(WireRulesTest, EveryInputHasOneRawEntryOfItsSize) {
  ExpectInvalid(kModel + kInputs + Delimited(7, kFive) + Delimited(7, kOne),
                "input \"key\": expected an entry 2 of raw_input_contents, found 2 entries");
  ExpectInvalid(kModel + kInputs + kContents + Delimited(7, ""),
                "raw_input_contents: expected 3 entries, one for each input that is not in shared "
                "memory, found 4");
  ExpectInvalid(kModel + kInputs + Delimited(7, kFive) + Delimited(7, kOne) + Delimited(7, ""),
                "input \"key\": expected 4 bytes for FP32 [1, 1, 1, 1], found 0 in "
                "raw_input_contents[2]");
}

TEST_F(WireRulesTest, EmptyTensorsHaveEmptyEntries) {
  const std::string none = Bytes({0, 1, 1, 1});
  const std::string inputs = TensorHeader("value", none) + TensorHeader("query", none) +
                             TensorHeader("key", none) + Delimited(7, "") + Delimited(7, "") +
                             Delimited(7, "");
  EXPECT_EQ(*Infer(kModel + inputs), kHead + TensorHeader("output", none) + Delimited(6, ""));
}

TEST_F(WireRulesTest, OutputsComeAsAskedForWithIdAndVersion) {
  const std::string request = kModel + Delimited(3, "id") + kInputs +
                              Delimited(6, Delimited(1, "weights")) +
                              Delimited(6, Delimited(1, "output")) + kContents;
  EXPECT_EQ(*Infer(request), kHead + Delimited(3, "id") + TensorHeader("weights", kShape) +
                                 kOutput + Delimited(6, kOne) + Delimited(6, kFive));
  ExpectInvalid(kModel + kInputs + Delimited(6, Delimited(1, "scores")) + kContents,
                "outputs: expected \"output\" or \"weights\", found \"scores\"");
}

}  // namespace
}  // namespace attention
