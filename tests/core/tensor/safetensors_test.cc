#include "core/tensor/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "core/tensor/seeded.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string Bytes(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

class SafetensorsTest : public ::testing::Test {
 protected:
  absl::StatusOr<NamedTensors> ReadText(const std::string& text) const {
    return ReadSafetensors(folder_.Write("file.safetensors", text));
  }
  absl::StatusOr<NamedTensors> Read(const std::string& header, const std::string& data) const {
    return ReadText(Bytes<uint64_t>({header.size()}) + header + data);
  }
  // One tensor "x" over `data`.
  absl::StatusOr<NamedTensors> ReadOne(const std::string& dtype, const std::string& shape,
                                       const std::string& data) const {
    return Read(R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" +
                    std::to_string(data.size()) + "]}}",
                data);
  }
  std::vector<float> Floats(const absl::StatusOr<NamedTensors>& tensors) const {
    EXPECT_THAT(tensors, IsOk());
    if (!tensors.ok()) {
      return {};
    }
    const Tensor& x = tensors->at("x");
    EXPECT_EQ(x.dtype(), Dtype::kF32);
    return {x.as<float>(), x.as<float>() + x.num_elements()};
  }

  TempFolder folder_;
};

TEST_F(SafetensorsTest, IntegersStayIntegers) {
  const Tensor wide = SeededTensor(1, Dtype::kF32, {3});
  const std::vector<int32_t> keys = {7, -1, 16'777'216};
  const std::string path = folder_.path() + "/out.safetensors";
  ASSERT_THAT(WriteSafetensors(path, {{"keys", {{1, 3}, keys}}, {"x", &wide}}), IsOk());
  const absl::StatusOr<NamedTensors> read = ReadSafetensors(path);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->at("keys").shape(), Shape({1, 3}));
  EXPECT_THAT(std::vector(read->at("keys").as<float>(), read->at("keys").as<float>() + 3),
              ::testing::ElementsAre(7, -1, 16'777'216));
  std::ifstream file(path, std::ios::binary);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}),
              ::testing::HasSubstr(R"("dtype":"I32")"));
}

TEST_F(SafetensorsTest, WhatIsWrittenIsReadBack) {
  const Tensor f32 = SeededTensor(1, Dtype::kF32, {2, 3});
  const Tensor bf16 = SeededTensor(2, Dtype::kBf16, {5});
  const Tensor f16 = SeededTensor(3, Dtype::kF16, {1, 7, 1});
  const Tensor empty(Dtype::kF32, {0, 4});
  const std::map<std::string, const Tensor*> written = {
      {"a", &bf16}, {"b", &f32}, {"c\"\n", &f16}, {"d", &empty}};
  const std::string path = folder_.path() + "/out.safetensors";
  ASSERT_THAT(WriteSafetensors(path, NamedValues(written.begin(), written.end())), IsOk());

  const absl::StatusOr<NamedTensors> read = ReadSafetensors(path);
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->size(), written.size());
  for (const auto& [name, tensor] : written) {
    const Tensor& found = read->at(name);
    EXPECT_EQ(found.dtype(), tensor->dtype()) << name;
    EXPECT_EQ(found.shape(), tensor->shape()) << name;
    EXPECT_EQ(std::memcmp(found.data(), tensor->data(), tensor->size_bytes()), 0) << name;
  }
}

TEST_F(SafetensorsTest, WrittenTensorsAreAlignedForReadersThatMapTheFile) {
  const Tensor bf16 = SeededTensor(1, Dtype::kBf16, {1});
  const Tensor f32 = SeededTensor(2, Dtype::kF32, {1});
  const std::string path = folder_.path() + "/out.safetensors";
  ASSERT_THAT(WriteSafetensors(path, {{"a", &bf16}, {"b", &f32}}), IsOk());
  std::ifstream file(path, std::ios::binary);
  const std::string contents(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(contents, AllOf(HasSubstr(R"("data_offsets":[0,4],"dtype":"F32")"),
                              HasSubstr(R"("data_offsets":[4,6],"dtype":"BF16")")));
  EXPECT_EQ((contents.size() - 6) % 8, 0u);
}

TEST_F(SafetensorsTest, WritingReplacesTheFileAndLeavesNothingElse) {
  const std::string path = folder_.Write("out.safetensors", "old");
  const Tensor tensor = SeededTensor(1, Dtype::kF32, {3});
  ASSERT_THAT(WriteSafetensors(path, {{"x", &tensor}}), IsOk());
  EXPECT_THAT(ReadSafetensors(path), IsOk());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(SafetensorsTest, AFailedWriteNamesThePathAndLeavesNothing) {
  const Tensor tensor = SeededTensor(1, Dtype::kF32, {3});
  EXPECT_THAT(WriteSafetensors(folder_.path() + "/none/out", {{"x", &tensor}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none/out")));
  // A folder cannot be replaced by a file: the last step fails.
  folder_.Write("taken/inside", "");
  EXPECT_FALSE(WriteSafetensors(folder_.path() + "/taken", {{"x", &tensor}}).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(SafetensorsTest, EveryDtypeIsReadAsDocumented) {
  EXPECT_THAT(Floats(ReadOne("F32", "[2]", Bytes<float>({1.5f, -2.0f}))), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(Floats(ReadOne("F64", "[2]", Bytes<double>({0.1, -3.0}))), ElementsAre(0.1f, -3.0f));
  EXPECT_THAT(Floats(ReadOne("I64", "[2]", Bytes<int64_t>({-5, int64_t{1} << 40}))),
              ElementsAre(-5.0f, 0x1p40f));
  EXPECT_THAT(Floats(ReadOne("I32", "[2]", Bytes<int32_t>({7, -(1 << 24)}))),
              ElementsAre(7.0f, -0x1p24f));
  EXPECT_THAT(Floats(ReadOne("U8", "[2]", Bytes<uint8_t>({0, 255}))), ElementsAre(0.0f, 255.0f));
  EXPECT_THAT(Floats(ReadOne("BOOL", "[2]", Bytes<uint8_t>({1, 0}))), ElementsAre(1.0f, 0.0f));
}

TEST_F(SafetensorsTest, IntegersThatAFloatCannotHoldAreRefused) {
  EXPECT_THAT(ReadOne("I32", "[2]", Bytes<int32_t>({1, (1 << 24) + 1})),
              StatusIs(kInvalid, AllOf(HasSubstr("\"x\""), HasSubstr("found 16777217 at 1"))));
  EXPECT_THAT(ReadOne("I64", "[1]", Bytes<int64_t>({std::numeric_limits<int64_t>::max()})),
              StatusIs(kInvalid, HasSubstr("found 9223372036854775807 at 0")));
}

TEST_F(SafetensorsTest, ScalarsPaddingMetadataAndAnyOrderAreRead) {
  const absl::StatusOr<NamedTensors> tensors = Read(
      R"({"b":{"data_offsets":[4,6],"dtype":"F16","shape":[1]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
      Bytes<float>({2.0f}) + Bytes<uint16_t>({0x3c00}));
  ASSERT_THAT(tensors, IsOk());
  EXPECT_EQ(tensors->size(), 2u);
  EXPECT_EQ(tensors->at("a").as<float>()[0], 2.0f);
  EXPECT_EQ(tensors->at("b").as<F16>()[0].bits, 0x3c00);
}

TEST_F(SafetensorsTest, TextsAreWrittenAndReadBack) {
  const Tensor tensor = SeededTensor(1, Dtype::kF32, {2});
  const SafetensorsMetadata texts = {{"a", "\"é\n"}, {"b", ""}};
  const std::string path = folder_.path() + "/out.safetensors";
  ASSERT_THAT(WriteSafetensors(path, {{"x", &tensor}}, texts), IsOk());
  ASSERT_THAT(ReadSafetensors(path), IsOk());
  EXPECT_EQ(*ReadSafetensorsMetadata(path), texts);

  ASSERT_THAT(WriteSafetensors(path, {{"x", &tensor}}), IsOk());
  EXPECT_TRUE(ReadSafetensorsMetadata(path)->empty());
}

TEST_F(SafetensorsTest, TextsThatAreNoneAreRefused) {
  const auto read = [this](const std::string& metadata) {
    const std::string header = R"({"__metadata__":)" + metadata + "}";
    return ReadSafetensorsMetadata(
        folder_.Write("file.safetensors", Bytes<uint64_t>({header.size()}) + header));
  };
  EXPECT_THAT(read(R"({"a":1})"),
              StatusIs(kInvalid, HasSubstr("__metadata__.a: expected a string, found 1")));
  EXPECT_THAT(read("[]"),
              StatusIs(kInvalid, HasSubstr("__metadata__: expected an object, found a list of 0")));
  EXPECT_EQ(ReadSafetensorsMetadata(folder_.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, AMissingFileIsNotFound) {
  EXPECT_THAT(ReadSafetensors(folder_.path() + "/none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder_.path() + "/none")));
  EXPECT_FALSE(ReadSafetensors(folder_.path()).ok());
}

TEST_F(SafetensorsTest, HeaderLengthsThatLieAreRefused) {
  EXPECT_THAT(ReadText("1234567"),
              StatusIs(kInvalid, AllOf(HasSubstr("file.safetensors"), HasSubstr("found 7"))));
  EXPECT_THAT(ReadText(Bytes<uint64_t>({3}) + "{}"),
              StatusIs(kInvalid,
                       HasSubstr("ends inside its header: expected at least 11 bytes, found 10")));
  EXPECT_THAT(ReadText(Bytes<uint64_t>({~uint64_t{0}}) + "{}"),
              StatusIs(kInvalid, HasSubstr("18446744073709551615")));
}

TEST_F(SafetensorsTest, HeadersThatAreNoJsonObjectAreRefused) {
  for (const std::string header : {"", "{", "[]", "{\"x\":", "{}}", "{\"\xff\":{}}", "7"}) {
    EXPECT_THAT(Read(header, ""), StatusIs(kInvalid, HasSubstr("header: expected "))) << header;
  }
}

struct BadHeader {
  const char* text;     // over 8 bytes of data
  const char* message;  // part of the refusal
};

TEST_F(SafetensorsTest, ATensorWithoutElementsMayHaveAnyExtents) {
  EXPECT_THAT(
      Read(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", ""),
      IsOk());
}

TEST_F(SafetensorsTest, EntriesThatLieAreRefused) {
  const BadHeader bad_headers[] = {
      {R"({"x":7})", "tensor \"x\": expected an object, found 7"},
      {R"({"x":{"shape":[2],"data_offsets":[0,8]}})", "dtype: expected a string, found none"},
      {R"({"x":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", "found \"F8_E4M3\""},
      {R"({"x":{"dtype":"F32","data_offsets":[0,8]}})", "shape: expected a list, found none"},
      {R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
       "tensor \"x\".shape[0]: expected a whole number of 0 to 9223372036854775807, found -2"},
      {R"({"x":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "found 2.0"},
      {R"({"x":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}})",
       "found 9223372036854775808"},
      {R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
       "expected a size below 2^63 bytes, found [4294967296, 4294967296] of F32"},
      {R"({"x":{"dtype":"F32","shape":[2]}})", "data_offsets: expected a list, found none"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8]}})", "found [8]"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "found [8, 0]"},
      {R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "expected 12 bytes"},
      {R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "found end 12"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", "found end 16"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "found 4 (gap)"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "found 4 bytes described"},
      {R"({"y":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("x":{"dtype":"U8","shape":[1],"data_offsets":[7,8]}})",
       "(overlap)"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "header: expected each tensor and member once, found \"x\" again"},
  };
  for (const BadHeader& bad : bad_headers) {
    EXPECT_THAT(Read(bad.text, "12345678"),
                StatusIs(kInvalid, AllOf(HasSubstr("tensor"), HasSubstr(bad.message))))
        << bad.text;
  }
}

// Reading may succeed where the change is harmless; it must not crash, nor allocate what a lying
// header asks for.
TEST_F(SafetensorsTest, NoDamagedByteBreaksTheReader) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string intact = Bytes<uint64_t>({header.size()}) + header + "12345678";
  int refused = 0;
  for (size_t i = 0; i < intact.size() - 8; ++i) {
    for (const char damage : {'\0', '"', '9', '\xff'}) {
      std::string damaged = intact;
      damaged[i] = damage;
      refused += !ReadText(damaged).ok();
    }
    refused += !ReadText(intact.substr(0, i)).ok();
  }
  EXPECT_GT(refused, 250);
}

}  // namespace
}  // namespace attention
