// A server's file of options; what is accepted must be printed and read back as the same.
#include <cstdlib>

#include "server/configuration/settings.h"
#include "tests/fuzz/scratch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const attention::ScratchFile file(data, size);
  const auto settings = attention::ReadConfigurationFile(file.path());
  if (!settings.ok()) {
    return 0;
  }
  attention::ServerOptions options;
  if (!attention::Apply(*settings, options).ok()) {
    return 0;
  }
  const std::string printed = attention::ToJson(*settings);
  const attention::ScratchFile again(reinterpret_cast<const uint8_t*>(printed.data()),
                                     printed.size());
  const auto reread = attention::ReadConfigurationFile(again.path());
  attention::ServerOptions reread_options;
  const bool has_hidden = printed.find("hidden") != std::string::npos;
  if (!has_hidden && (!reread.ok() || !attention::Apply(*reread, reread_options).ok() ||
                      attention::ToJson(*reread) != printed)) {
    abort();
  }
  return 0;
}
