// The registers of the matrix unit (AMX): each thread configures its own. x86-64 only.
#pragma once

#include <cstdint>

namespace attention {

/// How many rows of how many bytes each of the eight registers of the unit has, as the instruction
/// LDTILECFG reads it. All zeros: the registers are free. It is all that kernels expect of the
/// unit.
struct alignas(64) MatrixUnitConfig {
  uint8_t bytes[64];
};

/// Returns whether both are the same.
bool operator==(const MatrixUnitConfig& a, const MatrixUnitConfig& b);

/// Sets the size of register `index`, of at most 16 rows of 64 bytes.
void SetRegister(int index, int64_t rows, int64_t row_bytes, MatrixUnitConfig& config);

/// Configures the unit of this thread, unless it is so already. A KernelRun releases it.
/// REQUIRES: HasMatrixUnit(), as all functions here but ReleaseMatrixUnit.
void ConfigureMatrixUnit(const MatrixUnitConfig& config);

/// Reads the configuration of this thread's unit from the processor.
MatrixUnitConfig ReadMatrixUnitConfig();

/// Frees the registers of the unit on this thread, if ConfigureMatrixUnit has configured it.
void ReleaseMatrixUnit();

}  // namespace attention
