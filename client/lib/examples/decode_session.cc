// decode_session PROMPT [MODEL [SERVER]]: continues a text in a session. The server keeps keys and
// values, so that each step costs one token.
#include <iostream>

#include "attend/client/lib/decode_stream.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: decode_session PROMPT [MODEL [SERVER]]\n";
    return 2;
  }
  attention::v1::OpenSession open;
  open.set_model(argc > 2 ? argv[2] : "gpt2");
  const auto session = attention::DecodeStream::Open(
      {.connection = {.server = argc > 3 ? argv[3] : "127.0.0.1:8001"}}, open);
  if (!session.ok()) {
    std::cerr << session.status() << "\n";
    return 1;
  }
  auto step = (*session)->Step({.input = attention::TextInput{{argv[1]}}, .top_logits = 1});
  for (int i = 0; i < 16 && step.ok(); ++i) {
    std::cout << step->top_logits->tokens(0) << " " << std::flush;
    const int32_t next = step->top_logits->ids(0);
    step = (*session)->Step({.input = attention::TokenIdsInput{{next}}, .top_logits = 1});
  }
  if (!step.ok()) {
    std::cerr << step.status() << "\n";
    return 1;
  }
  std::cout << "\n"
            << step->session.length << " tokens in the session, "
            << step->session.usage.cache_bytes() << " bytes of keys and values\n";
  return (*session)->Close().ok() ? 0 : 1;
}
