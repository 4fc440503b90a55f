// The order of a queue: start tags of its flows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "server/scheduling/request_class.h"

namespace attention {

/// What waits of one tenant in one priority. Nanoseconds are estimates.
struct RequestFlow {
  double last_finish = 0;  // tag
  int64_t work_ns = 0;     // of what waits
  int64_t short_ns = 0;    // of that, of short jobs
  int64_t bytes = 0;
  int64_t requests = 0;
  double mean_ns = 0;  // of jobs of late
  double mean_bytes = 0;
};

/// Start-time fair queueing (Goyal, Vin & Cheng 1996) over flows that are the tenants of each
/// priority, in units of estimated work. Of the tenants that an account names at most kMaxTurns
/// have a flow of their own; the rest share one. Kept are those with jobs, or tags to come. Not
/// thread-safe.
class RequestFlows {
 public:
  /// Who may call itself as it likes gets so many turns at most, whatever the number of its names.
  static constexpr int kMaxTurns = 16;

  using Key = std::tuple<Priority, std::string, std::string>;  // ..., account, tenant
  using Iterator = std::map<Key, RequestFlow>::iterator;

  /// The tag that what runs has reached.
  double virtual_time() const { return virtual_time_; }
  void set_virtual_time(double tag) { virtual_time_ = tag; }
  /// Nothing waits or runs: nobody owes anybody anything.
  void Clear();

  /// The flow that a job of the class would be in; null when it is not there.
  const RequestFlow* Find(const RequestClass& request_class) const;
  /// The same, which is there then.
  Iterator Enter(const RequestClass& request_class);
  /// Forgets the flow if nothing waits in it and it has no tags to come.
  void Leave(Iterator flow);

  /// Where the next job of the class would stand.
  struct Place {
    double start = 0;       // its tag
    double waiting_ns = 0;  // the work before it, of short jobs only where `is_short` says so
  };
  Place PlaceOf(const RequestClass& request_class, bool is_short) const;
  /// The tag at which the flow's next job would start.
  double StartOf(const RequestFlow& flow) const;

 private:
  Key KeyOf(const RequestClass& request_class) const;
  bool IsSettled(const RequestFlow& flow) const;
  /// Of those that have nothing waiting, forgets the half whose debts are the smallest.
  void ForgetIdle();

  std::map<Key, RequestFlow> flows_;
  double virtual_time_ = 0;
};

}  // namespace attention
