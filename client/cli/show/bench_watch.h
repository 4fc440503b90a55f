// What a person sees while a load is measured, and how it is interrupted.
#pragma once

#include "client/load/bench.h"

namespace attention {

/// Prints a message for each level to stderr, and progress when that is a terminal.
/// The first interrupt (Ctrl-C) or SIGTERM ends the measurement, whose result is reported; the
/// second ends the program. REQUIRES: called once in a program.
BenchWatch WatchFromTerminal();

}  // namespace attention
