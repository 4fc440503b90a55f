#include "client/cli/files/npy.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class NpyTest : public ::testing::Test {
 protected:
  /// A file of the given format version, header text and element bytes.
  std::string WriteFile(int version, const std::string& header, const std::string& elements) {
    std::string bytes("\x93NUMPY", 6);
    bytes += static_cast<char>(version);
    bytes += '\0';
    const size_t length_bytes = version == 1 ? 2 : 4;
    for (size_t i = 0; i < length_bytes; ++i) {
      bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
    }
    return folder_.Write("tensor.npy", bytes + header + elements);
  }

  std::string WriteHeader(const std::string& descr, const std::string& order,
                          const std::string& shape) {
    return WriteFile(1,
                     absl::StrCat("{'descr': '", descr, "', 'fortran_order': ", order,
                                  ", 'shape': ", shape, ", }\n"),
                     "");
  }

  TempFolder folder_;
};

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

TEST_F(NpyTest, WhatIsWrittenIsReadBackBitForBit) {
  const std::string path = folder_.path() + "/a.npy";
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16}) {
    for (const Shape& shape : {Shape{2, 3, 4}, Shape{5}, Shape{}, Shape{0, 7}}) {
      const Tensor tensor = SeededTensor(1, dtype, shape);
      ASSERT_THAT(WriteNpy(path, tensor), IsOk());
      const absl::StatusOr<Tensor> read = ReadNpy(path);
      ASSERT_THAT(read, IsOk());
      EXPECT_EQ(read->dtype(), dtype);
      EXPECT_EQ(read->shape(), shape);
      EXPECT_EQ(std::memcmp(read->data(), tensor.data(), tensor.size_bytes()), 0);
    }
  }
}

TEST_F(NpyTest, WritesBf16AsFp32OfTheSameValues) {
  const std::string path = folder_.path() + "/a.npy";
  const Tensor tensor = SeededTensor(1, Dtype::kBf16, {3, 5});
  ASSERT_THAT(WriteNpy(path, tensor), IsOk());
  const absl::StatusOr<Tensor> read = ReadNpy(path);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->dtype(), Dtype::kF32);
  EXPECT_EQ(std::memcmp(read->data(), tensor.ConvertedTo(Dtype::kF32).data(), read->size_bytes()),
            0);
}

TEST_F(NpyTest, AlignsElementsAsNumPyDoes) {
  const std::string path = folder_.path() + "/a.npy";
  ASSERT_THAT(WriteNpy(path, SeededTensor(1, Dtype::kF32, {2, 2})), IsOk());
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(bytes, StartsWith(std::string("\x93NUMPY\x01\x00", 8)));
  EXPECT_EQ((bytes.size() - 16) % 64, 0u);
  EXPECT_THAT(bytes, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"));
}

TEST_F(NpyTest, ReadsEveryVersion) {
  for (const int version : {1, 2, 3}) {
    const std::string path =
        WriteFile(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }  \n",
                  BytesOf<float>({1.0f, 2.0f, 3.0f}));
    const absl::StatusOr<Tensor> tensor = ReadNpy(path);
    ASSERT_THAT(tensor, IsOk()) << version;
    EXPECT_THAT(std::vector<float>(tensor->as<float>(), tensor->as<float>() + 3),
                ElementsAre(1.0f, 2.0f, 3.0f));
  }
}

TEST_F(NpyTest, ReadsHeadersWhateverTheOrderAndQuotes) {
  const std::string path =
      WriteFile(1, "{\"shape\":(2,1),\"fortran_order\":False,\"descr\":\"<f4\"}",
                BytesOf<float>({4.0f, 5.0f}));
  const absl::StatusOr<Tensor> tensor = ReadNpy(path);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->shape(), ElementsAre(2, 1));
}

TEST_F(NpyTest, RoundsDoublesToFp32) {
  const std::string path = WriteFile(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }",
                                     BytesOf<double>({0.1, -1e-50}));
  const absl::StatusOr<Tensor> tensor = ReadNpy(path);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->dtype(), Dtype::kF32);
  EXPECT_EQ(tensor->as<float>()[0], 0.1f);
  EXPECT_EQ(tensor->as<float>()[1], 0.0f);
}

TEST_F(NpyTest, ReadsBoolsAndBytesAsFp32) {
  for (const char* descr : {"|b1", "|u1"}) {
    const std::string path = WriteFile(
        1, absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (3,), }"),
        std::string("\1\0\1", 3));
    const absl::StatusOr<Tensor> tensor = ReadNpy(path);
    ASSERT_THAT(tensor, IsOk());
    EXPECT_THAT(std::vector<float>(tensor->as<float>(), tensor->as<float>() + 3),
                ElementsAre(1.0f, 0.0f, 1.0f));
  }
}

TEST_F(NpyTest, NamesTheFileThatIsMissing) {
  EXPECT_THAT(ReadNpy(folder_.path() + "/absent.npy"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent.npy")));
}

TEST_F(NpyTest, SaysWhatItExpectedAndFound) {
  const struct {
    const char* descr;
    const char* order;
    const char* shape;
    const char* text;
  } cases[] = {
      {"<i8", "False", "(2,)", "found '<i8'"},
      {">f4", "False", "(2,)", "found '>f4'"},
      {"<f4", "False", "(2,)", "expected 8 bytes of elements, found 0"},
      {"<f4", "True", "(2,)", "expected C order, found Fortran order"},
      {"<f4", "Maybe", "(2,)", "expected fortran_order True or False"},
      {"<f4", "False", "2", "expected a tuple as shape"},
      {"<f4", "False", "(2, -1)", "found -1"},
      {"<f4", "False", "(4000000000, 4000000000)", "too many elements"},
  };
  for (const auto& [descr, order, shape, text] : cases) {
    EXPECT_THAT(ReadNpy(WriteHeader(descr, order, shape)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("tensor.npy"), HasSubstr(text))));
  }
}

TEST_F(NpyTest, RefusesFilesThatEndEarly) {
  const std::string whole = WriteFile(
      1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", BytesOf<float>({1.0f}));
  std::ifstream file(whole, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string path = folder_.Write("cut.npy", bytes.substr(0, size));
    EXPECT_THAT(ReadNpy(path), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cut.npy")))
        << size;
  }
}

TEST_F(NpyTest, RefusesOtherContent) {
  EXPECT_THAT(ReadNpy(folder_.Write("a.npy", "PK\x03\x04 not an array")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a .npy file")));
  EXPECT_THAT(ReadNpy(WriteFile(4, "{}", "")), StatusIs(absl::StatusCode::kInvalidArgument,
                                                        HasSubstr("version 1, 2 or 3, found 4")));
}

TEST_F(NpyTest, LeavesNothingBehindWhenWritingFails) {
  const std::string path = folder_.path() + "/no/such/folder.npy";
  EXPECT_THAT(WriteNpy(path, SeededTensor(1, Dtype::kF32, {2})),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("cannot be written")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace attention
