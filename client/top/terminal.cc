#include "client/top/terminal.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

namespace attention {
namespace {

constexpr char kEnterScreen[] = "\x1b[?1049h\x1b[?25l";  // the alternate one, without a cursor
constexpr char kLeaveScreen[] = "\x1b[?25h\x1b[?1049l";

bool WriteAll(const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = write(STDOUT_FILENO, text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR) {
      return false;
    }
    written += static_cast<size_t>(std::max<ssize_t>(0, count));
  }
  return true;
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::unique_ptr<Terminal> Terminal::Open() {
  termios before;
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || Variable("TERM") == "dumb" ||
      tcgetattr(STDIN_FILENO, &before) != 0) {
    return nullptr;
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP}) {
    sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return std::unique_ptr<Terminal>(new Terminal(signalfd(-1, &signals, SFD_CLOEXEC), before));
}

Terminal::~Terminal() {
  Leave();
  close(signals_);
}

void Terminal::Enter() {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
  WriteAll(kEnterScreen);
}

void Terminal::Leave() {
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  WriteAll(kLeaveScreen);  // last: who sees it finds all as it was
}

Terminal::Size Terminal::size() const {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {.width = size.ws_col, .height = size.ws_row};
}

bool Terminal::Show(const std::string& lines) {
  // No line break after the last one, which would scroll.
  const std::string text(absl::StripTrailingAsciiWhitespace(lines));
  return WriteAll(
      absl::StrCat("\x1b[H", absl::StrReplaceAll(text, {{"\n", "\x1b[K\r\n"}}), "\x1b[J"));
}

Terminal::Event Terminal::Wait(absl::Time deadline) {
  pollfd polled[] = {{STDIN_FILENO, POLLIN, 0}, {signals_, POLLIN, 0}};
  const int64_t left = std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - absl::Now()));
  if (poll(polled, 2, static_cast<int>(std::min<int64_t>(left + 1, 1 << 30))) <= 0) {
    return {};
  }
  if (polled[1].revents != 0) {
    return OnSignal();
  }
  char key = '\0';
  return read(STDIN_FILENO, &key, 1) == 1 ? Event{Event::Kind::kKey, key}
                                          : Event{Event::Kind::kEnd};
}

Terminal::Event Terminal::OnSignal() {
  signalfd_siginfo info;
  if (read(signals_, &info, sizeof(info)) != sizeof(info)) {
    return {Event::Kind::kEnd};
  }
  if (info.ssi_signo == SIGWINCH) {
    return {Event::Kind::kResize};
  }
  if (info.ssi_signo != SIGTSTP) {
    return {Event::Kind::kEnd};
  }
  Leave();
  kill(getpid(), SIGSTOP);  // goes on here
  Enter();
  return {Event::Kind::kResize};
}

int OutputWidth() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 120;
}

bool IsUtf8Locale() {
  std::string locale;
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    locale = locale.empty() ? Variable(name) : locale;
  }
  locale = absl::AsciiStrToLower(locale);
  return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
}

}  // namespace attention
