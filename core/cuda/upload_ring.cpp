#include "core/cuda/upload_ring.h"

#include <algorithm>

namespace poseidon::cuda {

void UploadRing::write(Stream stream, std::span<const std::byte> host, std::byte* to) {
  for (size_t done = 0; done < host.size();) {
    const size_t bytes = std::min(kPieceBytes, host.size() - done);
    write_piece(stream, host.subspan(done, bytes), to + done);
    done += bytes;
  }
}

void UploadRing::write_piece(Stream stream, std::span<const std::byte> host, std::byte* to) {
  Piece& piece = pieces_[next_++ % pieces_.size()];
  if (piece.copied == nullptr)
    piece.memory = driver_.allocate(kPieceBytes, MemoryKind::kStaging, "staging copies");
  else if (!piece.copied->reached())
    piece.copied->wait();
  std::ranges::copy(host, static_cast<std::byte*>(piece.memory.data()));
  driver_.copy(stream, piece.memory.data(), to, host.size());
  piece.copied = driver_.record(stream);
}

}  // namespace poseidon::cuda
