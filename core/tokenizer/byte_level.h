// GPT-2's alphabet: each byte is written as one printable character, so that any text can be
// spelled (https://github.com/openai/gpt-2/blob/master/src/encoder.py, bytes_to_unicode). And how
// bytes are shown to a person.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attention {

/// The character that stands for `byte`: itself where it is printable in Latin-1, else one of
/// U+0100 to U+0143.
int32_t ByteCharacter(uint8_t byte);

/// The bytes that `token` stands for; `token` itself when it has a character of another alphabet.
std::string BytesOf(const std::string& token);

/// "<0x0A>": the token of a byte in vocabularies of other alphabets.
std::string ByteTokenName(uint8_t byte);

/// `bytes`, with \xNN for each that is not part of valid UTF-8.
std::string ShownBytes(std::string_view bytes);

}  // namespace attention
