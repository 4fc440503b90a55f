// The order of a queue: start tags of its flows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "server/scheduling/request_class.h"

namespace attention {

/// The waiting jobs of one tenant in one priority. Nanoseconds are estimates.
struct RequestFlow {
  double last_finish = 0;  // the finish tag of the last job
  int64_t work_ns = 0;     // the work of the waiting jobs
  int64_t counted_ns = 0;  // what of it counts towards QueueLimits::max_wait_ns
  int64_t short_ns = 0;    // the part of work_ns in short jobs
  int64_t bytes = 0;
  int64_t requests = 0;
  double mean_ns = 0;  // the mean work of a recent job
  double mean_bytes = 0;
};

/// Start-time fair queueing (Goyal, Vin & Cheng 1996) over flows, which are the tenants of each
/// priority, in units of estimated work:
///
///     start tag  = max(virtual time, finish tag of the flow's job before)
///     finish tag = start tag + estimated ns / share of the priority
///
/// Jobs are taken in the order of their start tags. An account has at most kMaxFlowsOfAccount flows
/// in each priority: one for each tenant, and the last for all others. A flow is kept as long as it
/// has jobs, or a finish tag that the running batch has not reached. Not thread-safe.
class RequestFlows {
 public:
  /// The maximum number of flows of an account in a priority, whatever the number of its tenants.
  /// An account whose tenants are not proven may choose any names.
  static constexpr int kMaxFlowsOfAccount = 16;

  using Key = std::tuple<Priority, std::string, std::string>;  // priority, account, tenant
  using Iterator = std::map<Key, RequestFlow>::iterator;

  /// Returns the virtual time: the tag that the running batch has reached.
  double virtual_time() const { return virtual_time_; }
  void set_virtual_time(double tag) { virtual_time_ = tag; }
  /// Forgets all tags when nothing waits and nothing runs.
  void Clear();

  /// Returns the flow of a job of the class; null when it does not exist.
  const RequestFlow* Find(const RequestClass& request_class) const;
  /// Returns the same flow, and makes it if it does not exist.
  Iterator Enter(const RequestClass& request_class);
  /// Forgets the flow if it has no jobs, and the running batch has reached its finish tag.
  void Leave(Iterator flow);

  /// What the next job of a flow would find.
  struct NextJob {
    double start = 0;       // its start tag
    double waiting_ns = 0;  // the work before it; with `is_short` only that of short jobs
  };
  /// Returns it for the next job of the class.
  NextJob NextJobOf(const RequestClass& request_class, bool is_short) const;
  /// Returns the tag at which the flow's next job would start.
  double StartOf(const RequestFlow& flow) const;

 private:
  Key KeyOf(const RequestClass& request_class) const;
  bool IsSettled(const RequestFlow& flow) const;
  /// Forgets the half of the flows without waiting jobs whose tags are the smallest.
  void ForgetIdle();

  std::map<Key, RequestFlow> flows_;
  double virtual_time_ = 0;
};

}  // namespace attention
