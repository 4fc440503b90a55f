// attention_page TEXT FILE.html [MODEL [SERVER]]: writes a page that shows which token of a text
// attends to which, in the first layer of a model, as the mean of its heads.
#include <fstream>
#include <iostream>
#include <string>

#include "attend/client/lib/attention_client.h"

namespace {

std::string Escaped(const std::string& text) {
  std::string html;
  for (const char c : text) {
    html += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return html;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: attention_page TEXT FILE.html [MODEL [SERVER]]\n";
    return 2;
  }
  const auto client = attention::AttentionClient::Connect(
      {.connection = {.server = argc > 4 ? argv[4] : "127.0.0.1:8001"}});
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  attention::AttendRequest request;
  request.model = argc > 3 ? argv[3] : "gpt2";
  request.input = attention::TextInput{{argv[1]}};
  request.weights_choice.add_layers(0);
  const auto result = (*client)->Attend(request);
  if (!result.ok()) {
    std::cerr << result.status() << "\n";
    return 1;
  }
  const attention::Tensor& weights = result->layer_weights[0].weights;  // [heads, rows, keys]
  const int64_t heads = weights.shape()[0], rows = weights.shape()[1], keys = weights.shape()[2];
  const auto& tokens = result->tokens[0].tokens();
  std::ofstream page(argv[2]);
  page << "<!DOCTYPE html><meta charset=\"utf-8\"><title>Attention</title>\n<table>\n<tr><th></th>";
  for (const std::string& token : tokens) {
    page << "<th>" << Escaped(token) << "</th>";
  }
  for (int64_t row = 0; row < rows; ++row) {
    page << "</tr>\n<tr><th>" << Escaped(tokens[static_cast<int>(row)]) << "</th>";
    for (int64_t key = 0; key < keys; ++key) {
      double mean = 0;
      for (int64_t head = 0; head < heads; ++head) {
        mean += weights.as<float>()[(head * rows + row) * keys + key] / static_cast<double>(heads);
      }
      page << "<td style=\"background: rgb(30 100 200 / " << mean << ")\">" << mean << "</td>";
    }
  }
  page << "</tr>\n</table>\n";
  page.close();
  std::cout << "wrote " << argv[2] << ": rows attend to columns\n";
  return page ? 0 : 1;
}
