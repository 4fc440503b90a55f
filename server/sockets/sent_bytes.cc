#include "server/sockets/sent_bytes.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace attention {

SentBytes SentBytesOf(int connection) {
  SentBytes sent;
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
    sent.arrived = static_cast<int64_t>(info.tcpi_bytes_acked);
  }
  int under_way = 0;
  if (ioctl(connection, SIOCOUTQ, &under_way) == 0) {
    sent.under_way = under_way;
  }
  return sent;
}

}  // namespace attention
