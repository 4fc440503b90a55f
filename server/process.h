// The process of the server: its environment, signals, files and threads.
#pragma once

#include <signal.h>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "server/configuration/settings.h"

namespace attention {

Environment OwnEnvironment();

/// Opens /dev/null in place of closed standard files, since another file would get their numbers,
/// and what is written to them.
void OpenStandardFiles();

/// Raises the limit of open files to the highest that is allowed. Each connection is a file; the
/// usual limit of 1024 is for programs that select() them.
void AllowManyFiles();

/// Blocks SIGTERM, SIGINT and SIGHUP in this thread and in threads that it starts later, so that
/// only sigwait gets them. Returns them.
sigset_t BlockSignals();

/// Starts the thread that notifies `stop` at the first of `signals`, and ends the process at the
/// second that is not SIGHUP. Call it before the server starts: later the system may have no thread
/// left for it.
void WatchSignals(const sigset_t& signals, absl::Notification& stop);

/// Returns RESOURCE_EXHAUSTED if the process cannot have the threads of a server with so many
/// compute threads (0: one for each core that it may use) at once. A server whose start fails
/// halfway for lack of one could wait for ever for those that it has.
absl::Status CheckThreads(int compute_threads);

/// Returns whether standard output takes a few lines; a pipe that nobody reads does not.
bool TakesOutput();

}  // namespace attention
