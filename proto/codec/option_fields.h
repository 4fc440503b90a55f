// Reads options of attention that the core and its reference declare alike.
#pragma once

#include <cstdint>

#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// The rotary options; those that `wire` leaves out have the defaults of `Rotary`. REQUIRES: the
/// scaling is valid, and the enumerators of `Rotary::Scaling` are in the order of the wire's.
template <typename Rotary>
Rotary RotaryOf(const v1::Rotary& wire) {
  Rotary rotary;
  rotary.dim = wire.dim();
  rotary.base = wire.has_base() ? wire.base() : rotary.base;
  rotary.interleaved = wire.interleaved();
  rotary.scaling = static_cast<typename Rotary::Scaling>(wire.scaling());
  rotary.factor = wire.has_factor() ? wire.factor() : rotary.factor;
  rotary.low_freq_factor =
      wire.has_low_freq_factor() ? wire.low_freq_factor() : rotary.low_freq_factor;
  rotary.high_freq_factor =
      wire.has_high_freq_factor() ? wire.high_freq_factor() : rotary.high_freq_factor;
  rotary.original_max_positions = wire.has_original_max_positions() ? wire.original_max_positions()
                                                                    : rotary.original_max_positions;
  rotary.position_offset = wire.position_offset();
  return rotary;
}

/// Replaces those visibility rules of `options` that `wire` sets, all but the mask. `wire` is the
/// options of a request, or of one of its sequences; `numbers` are the kVisibilityNumbers of
/// `Options`. Views in the result borrow from `wire`.
template <typename Wire, typename Options, typename Numbers>
void ReadVisibilityFields(const Wire& wire, const Numbers& numbers, Options& options) {
  options.causal = wire.has_causal() ? wire.causal() : options.causal;
  for (const auto& number : numbers) {
    const auto* const field = Wire::descriptor()->FindFieldByName(number.name);
    if (wire.GetReflection()->HasField(wire, field)) {
      options.*number.value = wire.GetReflection()->GetInt64(wire, field);
    }
  }
  if (!wire.global_tokens().empty()) {
    const int64_t* const tokens = wire.global_tokens().data();
    options.global_tokens =
        decltype(options.global_tokens)(tokens, tokens + wire.global_tokens_size());
  }
}

}  // namespace attention
