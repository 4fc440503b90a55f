// The functions that may follow a linear map.
#pragma once

namespace attention {

/// The function that is applied to the result of a linear map.
enum class Activation {
  kNone,
  kRelu,
  kGelu,      // x Phi(x) (Hendrycks & Gimpel 2016)
  kGeluTanh,  // the same authors' approximation by tanh
  kSilu,      // x / (1 + exp(-x))
};

}  // namespace attention
