// A message whose parts are freed all at once.
#pragma once

#include <google/protobuf/arena.h>

#include <memory>

namespace attention {

/// A message on an arena of its own. Messages with maps are made on one: elsewhere, when there is
/// no memory for the entries of a map, protobuf 3.21 ends the process as it destroys the map.
template <typename Message, typename Arena = google::protobuf::Arena>
class ArenaMessage {
 public:
  Message& operator*() { return *message_; }
  const Message& operator*() const { return *message_; }
  Message* operator->() { return message_; }
  const Message* operator->() const { return message_; }

 private:
  static Message* MakeOn(Arena* arena) {
    if constexpr (requires { Arena::template CreateMessage<Message>(arena); }) {
      return Arena::template CreateMessage<Message>(arena);
    } else {
      return Arena::template Create<Message>(arena);  // protobuf 30 has no CreateMessage
    }
  }

  std::unique_ptr<Arena> arena_ = std::make_unique<Arena>();
  Message* message_ = MakeOn(arena_.get());
};

}  // namespace attention
