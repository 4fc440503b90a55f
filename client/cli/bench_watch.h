// What a person sees of a benchmark while it runs, and how they end it.
#pragma once

#include "client/load/bench.h"

namespace attention {

/// Messages for each level on stderr, and, when that is a terminal, a line that tells how it goes.
/// The first interrupt (Ctrl-C) ends the measurement, whose result is reported; the second ends the
/// program. REQUIRES: called once in a program.
BenchWatch WatchFromTerminal();

}  // namespace attention
