// GPT-2's alphabet: each byte is written as one printable character, so that any text can be
// written (https://github.com/openai/gpt-2/blob/master/src/encoder.py, bytes_to_unicode). Also:
// bytes as readable text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attention {

/// Returns the character for `byte`: the byte itself if it is printable in Latin-1, else one of
/// U+0100 to U+0143.
int32_t ByteCharacter(uint8_t byte);

/// Returns the bytes that `token` encodes, or `token` itself when it has a character of another
/// alphabet.
std::string BytesOf(const std::string& token);

/// Returns the token of a byte in vocabularies of other alphabets, such as "<0x0A>".
std::string ByteTokenName(uint8_t byte);

/// Returns `bytes`, with \xNN for each byte that is not part of valid UTF-8.
std::string ShownBytes(std::string_view bytes);

}  // namespace attention
