#pragma once
// Small copies by one kernel that says itself that it is over: behind all that it copied, each of its blocks writes a
// number to a word in memory of the host. So the driver is asked once for all pieces, needs no event behind them, and
// who waits reads memory.

#include "device/cuda/kernels/bits.hpp"
#include "device/cuda/kernels/fold_task.hpp"

namespace fabring::cuda::kernels {

inline constexpr unsigned most_pieces = 16;
inline constexpr unsigned most_copying_blocks = 16;

/// The one argument of the kernel. Every address and length is a multiple of the unit.
struct CopyTask {
  struct Piece {
    unsigned char* to;
    const unsigned char* from;
    std::uint64_t units;
  };
  Piece pieces[most_pieces];
  std::uint32_t piece_count;
  std::uint32_t unit_bytes;  ///< 1, 2, 4, 8 or 16
  std::uint64_t* told;       ///< a word for each block
  std::uint64_t number;
};

/// A block for every 256 units: a piece of 4 KiB, if it is aligned, is a round of one block.
inline unsigned blocks_of(const CopyTask& task) {
  std::uint64_t units = 0;
  for (std::uint32_t i = 0; i < task.piece_count; ++i) units += task.pieces[i].units;
  const std::uint64_t blocks = (units + threads_per_block - 1) / threads_per_block;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > most_copying_blocks ? most_copying_blocks : blocks);
}

template <class Unit>
FABRING_EVERYWHERE void copy_units(const CopyTask::Piece& piece, std::uint64_t thread, std::uint64_t threads) {
  FABRING_ROLLED
  for (std::uint64_t at = thread * sizeof(Unit); at < piece.units * sizeof(Unit); at += threads * sizeof(Unit))
    if constexpr (sizeof(Unit) == sizeof(Pack)) {
      store_pack(piece.to + at, load_pack(piece.from + at));
    } else {
      store(piece.to + at, load<Unit>(piece.from + at));
    }
}

/// What one thread of the grid does.
FABRING_EVERYWHERE void copy_pieces(const CopyTask& task, std::uint64_t thread, std::uint64_t threads) {
  FABRING_ROLLED
  for (std::uint32_t i = 0; i < task.piece_count; ++i) {
    const CopyTask::Piece& piece = task.pieces[i];
    switch (task.unit_bytes) {
      case 16:
        copy_units<Pack>(piece, thread, threads);
        break;
      case 8:
        copy_units<std::uint64_t>(piece, thread, threads);
        break;
      case 4:
        copy_units<std::uint32_t>(piece, thread, threads);
        break;
      case 2:
        copy_units<std::uint16_t>(piece, thread, threads);
        break;
      default:
        copy_units<unsigned char>(piece, thread, threads);
    }
  }
}

}  // namespace fabring::cuda::kernels
