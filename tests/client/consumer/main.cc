// consumer ADDRESS: asks the server's built-in model, as a program outside the repository would.
#include <iostream>

#include "attend/client/lib/attention_client.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: consumer ADDRESS\n";
    return 1;
  }
  const attention::ConnectionOptions connection = {.server = argv[1]};
  const auto client = attention::AttentionClient::Connect({.connection = connection});
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  attention::AttendRequest request;
  request.model = "demo";
  request.input = attention::TokenIdsInput{.ids = {11, 42, 7, 5, 900}, .lengths = {3, 2}};
  const absl::StatusOr<attention::AttendResult> result = (*client)->Attend(request);
  if (!result.ok()) {
    std::cerr << result.status() << "\n";
    return 1;
  }
  for (const int64_t extent : result->output.shape()) {
    std::cout << extent << " ";
  }
  std::cout << "\n";
}
