// The whole screen of a terminal, by the escape sequences that every terminal of today has
// (ECMA-48, xterm's alternate screen). What a library such as ncurses adds, windows and knowledge
// of terminals that are no more, is not needed here.
#pragma once

#include <termios.h>

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace attention {

/// One thread, and one object at a time. Shows its own screen until destroyed, which gives the
/// terminal back as it was.
class Terminal {
 public:
  struct Size {
    int width = 80;
    int height = 24;
  };
  struct Event {
    enum class Kind { kTimeout, kKey, kResize, kEnd };
    Kind kind = Kind::kTimeout;
    char key = '\0';
  };

  /// Null when standard input or output is no terminal, or one without escape sequences
  /// (TERM=dumb). To be called before other threads start: from now on, SIGINT, SIGTERM and SIGHUP
  /// are kEnd, and SIGTSTP gives the terminal back while the program sleeps.
  static std::unique_ptr<Terminal> Open();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;
  /// Lines that fill the screen at most. False when the terminal is gone.
  bool Show(const std::string& lines);
  Event Wait(absl::Time deadline);

 private:
  Terminal(int signals, const termios& before) : signals_(signals), before_(before) { Enter(); }
  void Enter();
  void Leave();
  Event OnSignal();

  const int signals_;  // a descriptor
  const termios before_;
};

/// Of standard output; 120 when it is no terminal.
int OutputWidth();

/// Whether the locale of the environment says that text is UTF-8.
bool IsUtf8Locale();

}  // namespace attention
