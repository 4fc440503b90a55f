#include "client/cli/files/npy.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/files/shape_text.h"
#include "core/runtime/output_file.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;

struct Header {
  std::string descr;
  Shape shape;
};

absl::Status WrongNpy(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

/// Returns the text after `'key':` without leading blanks; empty when there is no such key.
absl::string_view ValueOf(absl::string_view dict, absl::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = absl::StrCat(std::string(1, quote), key, std::string(1, quote));
    const size_t at = dict.find(quoted);
    if (at != absl::string_view::npos) {
      absl::string_view rest = absl::StripLeadingAsciiWhitespace(dict.substr(at + quoted.size()));
      if (absl::ConsumePrefix(&rest, ":")) {
        return absl::StripLeadingAsciiWhitespace(rest);
      }
    }
  }
  return {};
}

/// Parses "(2, 3)" to {2, 3}, "(5,)" to {5}, and "()" to {}.
absl::StatusOr<Shape> ParseShapeTuple(const std::string& path, absl::string_view text) {
  const size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == absl::string_view::npos) {
    return WrongNpy(path, "header: expected a tuple as shape");
  }
  const std::vector<std::string> extents =
      absl::StrSplit(text.substr(1, end - 1), absl::ByAnyChar(", "), absl::SkipEmpty());
  if (extents.empty()) {
    return Shape();
  }
  absl::StatusOr<Shape> shape = ParseShape(absl::StrJoin(extents, "x"));
  return shape.ok() ? std::move(shape)
                    : WrongNpy(path, absl::StrCat("header: shape ", shape.status().message()));
}

absl::StatusOr<Header> ParseHeader(const std::string& path, absl::string_view dict) {
  Header header;
  absl::string_view descr = ValueOf(dict, "descr");
  if (descr.empty() || (descr[0] != '\'' && descr[0] != '"')) {
    return WrongNpy(path,
                    "header: expected a plain dtype as descr (structured arrays are not read)");
  }
  const size_t end = descr.find(descr[0], 1);
  if (end == absl::string_view::npos) {
    return WrongNpy(path, "header: descr has no closing quote");
  }
  header.descr = std::string(descr.substr(1, end - 1));
  const absl::string_view order = ValueOf(dict, "fortran_order");
  if (absl::StartsWith(order, "True")) {
    return WrongNpy(path,
                    "expected C order, found Fortran order (save numpy.ascontiguousarray(array))");
  }
  if (!absl::StartsWith(order, "False")) {
    return WrongNpy(path, "header: expected fortran_order True or False");
  }
  ASSIGN_OR_RETURN(header.shape, ParseShapeTuple(path, ValueOf(dict, "shape")));
  return header;
}

absl::StatusOr<Header> ReadHeader(const std::string& path, std::istream& file,
                                  uint64_t file_bytes) {
  unsigned char start[kMagicBytes + 6] = {};
  if (!file.read(reinterpret_cast<char*>(start), kMagicBytes + 4) ||
      std::memcmp(start, kMagic, kMagicBytes) != 0) {
    return WrongNpy(path, "expected a .npy file, found other content (no \\x93NUMPY at the start)");
  }
  const int version = start[kMagicBytes];
  if (version < 1 || version > 3) {
    return WrongNpy(path, absl::StrCat("expected .npy version 1, 2 or 3, found ", version));
  }
  uint32_t length = start[8] | start[9] << 8;
  if (version > 1) {
    if (!file.read(reinterpret_cast<char*>(start) + 10, 2)) {
      return WrongNpy(path, "the file ends inside its header");
    }
    length |= static_cast<uint32_t>(start[10]) << 16 | static_cast<uint32_t>(start[11]) << 24;
  }
  if (length > file_bytes) {
    return WrongNpy(path, absl::StrCat("the file ends inside its header: expected more than ",
                                       length, " bytes, found ", file_bytes));
  }
  std::string dict(length, '\0');
  if (!file.read(dict.data(), length)) {
    return WrongNpy(path, "the file ends inside its header");
  }
  return ParseHeader(path, dict);
}

absl::StatusOr<size_t> ElementBytes(const std::string& path, const std::string& descr) {
  if (descr == "<f4") return 4;
  if (descr == "<f2") return 2;
  if (descr == "<f8") return 8;
  if (descr == "|b1" || descr == "|u1") return 1;
  return WrongNpy(path, absl::StrCat("expected dtype '<f4', '<f2', '<f8', '|b1' or '|u1', found '",
                                     descr, "'"));
}

template <typename Stored>
void ReadAsFloats(std::istream& file, Tensor& tensor) {
  std::vector<Stored> values(tensor.num_elements());
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(Stored)));
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.as<float>()[i] = static_cast<float>(values[i]);
  }
}

std::string HeaderText(const Tensor& tensor) {
  const char* descr = tensor.dtype() == Dtype::kF16 ? "<f2" : "<f4";
  std::string dict = absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
                                  absl::StrJoin(tensor.shape(), ", "),
                                  tensor.shape().size() == 1 ? ",), }" : "), }");
  // NumPy aligns the elements to 64 bytes and ends the header with a newline.
  const size_t unpadded = kMagicBytes + 4 + dict.size() + 1;
  dict.append((64 - unpadded % 64) % 64, ' ');
  dict.push_back('\n');
  const char lengths[] = {1, 0, static_cast<char>(dict.size() & 0xff),
                          static_cast<char>(dict.size() >> 8)};
  return absl::StrCat(absl::string_view(kMagic, kMagicBytes), absl::string_view(lengths, 4), dict);
}

}  // namespace

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::error_code error(file ? 0 : errno, std::generic_category());
  const uint64_t file_bytes = error ? 0 : std::filesystem::file_size(path, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", error.message()));
  }
  ASSIGN_OR_RETURN(const Header header, ReadHeader(path, file, file_bytes));
  ASSIGN_OR_RETURN(const size_t element_bytes, ElementBytes(path, header.descr));
  const uint64_t expected = NumElements(header.shape) * element_bytes;
  const uint64_t found = file_bytes - static_cast<uint64_t>(file.tellg());
  if (expected != found) {
    return WrongNpy(path, absl::StrCat("expected ", expected, " bytes of elements, found ", found));
  }
  Tensor tensor(element_bytes == 2 ? Dtype::kF16 : Dtype::kF32, header.shape);
  if (element_bytes == 8) {
    ReadAsFloats<double>(file, tensor);
  } else if (element_bytes == 1) {
    ReadAsFloats<uint8_t>(file, tensor);
  } else if (expected > 0) {
    file.read(static_cast<char*>(tensor.data()), static_cast<std::streamsize>(expected));
  }
  if (!file) {
    return WrongNpy(path, "reading failed before the last element");
  }
  return tensor;
}

absl::Status WriteNpy(const std::string& path, const Tensor& tensor) {
  if (tensor.dtype() == Dtype::kBf16) {
    return WriteNpy(path, tensor.ConvertedTo(Dtype::kF32));
  }
  return WriteFile(
      path, {HeaderText(tensor), {static_cast<const char*>(tensor.data()), tensor.size_bytes()}});
}

}  // namespace attention
