// A tokenizer.json small enough to read, to be changed by a test.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
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

/// The pre-tokenizer of GPT-2.
inline constexpr const char* kByteLevel =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true})";

/// The trie of a map of characters: "a" becomes the replacement at byte 0.
inline std::vector<uint32_t> SmallTrie() {
  std::vector<uint32_t> trie(768);
  trie[0] = 256 << 10;                                       // the root's children: from 256
  trie[256 ^ 'a'] = 'a' | 1 << 8 | (512 ^ 256 ^ 'a') << 10;  // "a" ends a key; children: from 512
  trie[512] = uint32_t{1} << 31;                             // its value, 0
  return trie;
}

/// A "precompiled_charsmap" in base64; `texts` are its replacements.
inline std::string EncodedMap(const std::vector<uint32_t>& trie, const std::string& texts) {
  std::string bytes;
  const auto append = [&](uint32_t number) {
    for (int i = 0; i < 4; ++i) {
      bytes += static_cast<char>(number >> 8 * i);
    }
  };
  append(static_cast<uint32_t>(trie.size() * 4));
  std::ranges::for_each(trie, append);
  return absl::Base64Escape(bytes + texts);
}

}  // namespace attention
