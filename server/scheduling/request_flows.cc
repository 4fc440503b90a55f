#include "server/scheduling/request_flows.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace attention {
namespace {

// The number of flows beyond which half of the flows without waiting jobs are forgotten.
constexpr size_t kMaxFlows = 4096;

// Returns whether the key is of a flow of that priority and account.
bool IsOf(const RequestClass& request_class,
          const std::tuple<Priority, std::string, std::string>& key) {
  return std::get<0>(key) == request_class.priority && std::get<1>(key) == request_class.account;
}

}  // namespace

void RequestFlows::Clear() {
  flows_.clear();
  virtual_time_ = 0;
}

bool RequestFlows::IsSettled(const RequestFlow& flow) const {
  return flow.requests == 0 && flow.last_finish <= virtual_time_;
}

RequestFlows::Key RequestFlows::KeyOf(const RequestClass& request_class) const {
  Key key(request_class.priority, request_class.account, request_class.tenant);
  if (request_class.account.empty() || flows_.contains(key)) {
    return key;
  }
  int flows = 0;
  for (auto flow = flows_.lower_bound({request_class.priority, request_class.account, ""});
       flow != flows_.end() && IsOf(request_class, flow->first); ++flow) {
    flows += IsSettled(flow->second) ? 0 : 1;
  }
  if (flows >= kMaxFlowsOfAccount - 1) {
    std::get<2>(key).clear();
  }
  return key;
}

RequestFlows::Iterator RequestFlows::Enter(const RequestClass& request_class) {
  if (flows_.size() > kMaxFlows) {
    ForgetIdle();
  }
  const Key key = KeyOf(request_class);
  if (const auto found = flows_.find(key); found != flows_.end()) {
    return found;
  }
  // An account has few flows at a time, so each look-up can search for unused ones.
  auto flow = flows_.lower_bound({request_class.priority, request_class.account, ""});
  while (!request_class.account.empty() && flow != flows_.end() &&
         IsOf(request_class, flow->first)) {
    flow = IsSettled(flow->second) ? flows_.erase(flow) : std::next(flow);
  }
  return flows_.try_emplace(key).first;
}

const RequestFlow* RequestFlows::Find(const RequestClass& request_class) const {
  const auto found = flows_.find(KeyOf(request_class));
  return found == flows_.end() ? nullptr : &found->second;
}

void RequestFlows::Leave(Iterator flow) {
  if (IsSettled(flow->second)) {
    flows_.erase(flow);
  }
}

double RequestFlows::StartOf(const RequestFlow& flow) const {
  return std::max(virtual_time_, flow.last_finish);
}

RequestFlows::NextJob RequestFlows::NextJobOf(const RequestClass& request_class,
                                              bool is_short) const {
  const Key key = KeyOf(request_class);
  const auto own = flows_.find(key);
  NextJob next = {.start = own == flows_.end() ? virtual_time_ : StartOf(own->second)};
  for (const auto& [other, flow] : flows_) {
    const auto work_ns = static_cast<double>(is_short ? flow.short_ns : flow.work_ns);
    if (other == key || flow.last_finish <= next.start) {
      next.waiting_ns += work_ns;
    } else if (next.start > virtual_time_) {  // the part of the flow that precedes it
      next.waiting_ns +=
          work_ns * (next.start - virtual_time_) / (flow.last_finish - virtual_time_);
    }
  }
  return next;
}

void RequestFlows::ForgetIdle() {
  std::vector<double> tags;
  for (const auto& [_, flow] : flows_) {
    if (flow.requests == 0) {
      tags.push_back(flow.last_finish);
    }
  }
  if (tags.empty()) {
    return;
  }
  const auto middle = tags.begin() + std::ssize(tags) / 2;
  std::nth_element(tags.begin(), middle, tags.end());
  std::erase_if(flows_, [last = *middle](const auto& flow) {
    return flow.second.requests == 0 && flow.second.last_finish <= last;
  });
}

}  // namespace attention
