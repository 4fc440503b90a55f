// A tokenizer.json small enough to read, to be changed by a test.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace attention {

/// BPE over a, b, c, é and the space's stand-in; "ab" and "abc" are merged.
inline nlohmann::json SmallTokenizer() {
  return nlohmann::json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {
      "type": "BPE", "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "abc": 5, "▁": 6, "é": 7},
      "merges": [["a", "b"], ["ab", "c"]]
    }
  })");
}

/// SmallTokenizer with one value changed: where is a JSON pointer, value is JSON.
inline std::string SmallTokenizerWith(const std::string& where, const std::string& value) {
  nlohmann::json tokenizer = SmallTokenizer();
  tokenizer[nlohmann::json::json_pointer(where)] = nlohmann::json::parse(value);
  return tokenizer.dump();
}

}  // namespace attention
