// The function tables, one from each instruction set's file.
#pragma once

namespace attention {

struct TileKernels;

extern const TileKernels kTileKernelsNeon;  // on ARM64; the others on x86-64
extern const TileKernels kTileKernelsSse41;
extern const TileKernels kTileKernelsAvx2;
extern const TileKernels kTileKernelsAvx2Vnni;
extern const TileKernels kTileKernelsAvx512;
extern const TileKernels kTileKernelsAvx512Vnni;
extern const TileKernels kTileKernelsAvx512Bf16;

}  // namespace attention
