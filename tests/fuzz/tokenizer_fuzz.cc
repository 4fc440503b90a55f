// A tokenizer.json, and a text for it behind a line that says nothing but "TEXT".
#include <string>
#include <string_view>

#include "core/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kSeparator = "\nTEXT\n";
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t split = input.find(kSeparator);
  const auto tokenizer = attention::Tokenizer::Create(input.substr(0, split));
  if (tokenizer.ok() && split != std::string::npos) {
    (void)(*tokenizer)->Encode(std::string_view(input).substr(split + kSeparator.size()));
  }
  return 0;
}
