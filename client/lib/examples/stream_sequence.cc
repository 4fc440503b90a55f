// stream_sequence [LENGTH [SERVER]]: streams attention over a long sequence. Each block of rows is
// used when it arrives, and none is kept.
#include <iostream>
#include <random>
#include <string>

#include "attend/client/lib/attention_client.h"

int main(int argc, char** argv) {
  const int64_t length = argc > 1 ? std::stoll(argv[1]) : 4096;
  attention::Tensor rows(attention::Dtype::kF32, {length, 512});
  std::mt19937 generator;
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < rows.num_elements(); ++i) {
    rows.as<float>()[i] = normal(generator);
  }

  const auto client = attention::AttentionClient::Connect(
      {.connection = {.server = argc > 2 ? argv[2] : "127.0.0.1:8001"}});
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  attention::AttendRequest request;
  request.model = "demo";
  request.input = attention::HiddenStatesInput{&rows};
  request.options.set_causal(true);
  int64_t received = 0;
  attention::StreamSink sink;
  sink.on_rows = [&received](const attention::RowBlock& block) {
    received = block.first_row + block.rows.shape()[0];
    std::cout << "rows " << block.first_row << " to " << received - 1 << ", first value "
              << block.rows.as<float>()[0] << "\n";
    return true;  // false would cancel the call
  };
  const auto result = (*client)->AttendStream(request, sink);
  if (!result.ok()) {
    std::cerr << result.status() << "\n";
    return 1;
  }
  std::cout << received << " rows, computed in " << result->summary.compute_ns() / 1e6 << " ms\n";
}
