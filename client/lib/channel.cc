#include "client/lib/channel.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

namespace attention {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& server, bool own_connection) {
  // Held until the process ends: gRPC 1.51 can take 10 s over its own last shutdown.
  static const bool is_loaded = (grpc_init(), true);
  (void)is_loaded;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Large windows and frames from the first call on, instead of after a slow start.
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, own_connection ? 1 : 0);
  // A proxy of the environment would answer for a server that is not there.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace attention
