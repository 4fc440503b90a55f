// The function tables. The file of each instruction set defines one.
#pragma once

namespace attention {

struct TileKernels;

extern const TileKernels kTileKernelsNeon;  // on ARM64 only; the others on x86-64 only
extern const TileKernels kTileKernelsSse41;
extern const TileKernels kTileKernelsAvx2;
extern const TileKernels kTileKernelsAvx2Vnni;
extern const TileKernels kTileKernelsAvx512;
extern const TileKernels kTileKernelsAvx512Vnni;
extern const TileKernels kTileKernelsAvx512Bf16;

}  // namespace attention
