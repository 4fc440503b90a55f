// What a person sees while a load is measured, and how it is interrupted.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "client/load/bench.h"

namespace attention {

enum class InterruptEffect { kEndMeasurement, kNothing, kEndProgram };

/// Returns what an interrupt at `now_ns` does, and sets `first_ns`, which is 0 before the first.
/// One that comes within half a second of the first is the same: `timeout` signals its child and
/// then the group of both. Only a later one ends the program. May be called by a signal handler.
InterruptEffect TakeInterrupt(std::atomic<int64_t>& first_ns, int64_t now_ns);

/// Returns the line that shows `progress`, shorter than `columns`, so that it does not wrap.
std::string ProgressLine(const LoadProgress& progress, int64_t columns);

/// Prints a message for each level to stderr, and progress when that is a terminal.
/// From the first level on, the first interrupt (Ctrl-C) or SIGTERM ends the measurement, whose
/// result is reported; one that comes half a second later or more ends the program. Before it, an
/// interrupt ends the program. REQUIRES: called once in a program.
BenchWatch WatchFromTerminal();

}  // namespace attention
