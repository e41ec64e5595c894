#include "comm/wire/frame_reader.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace poseidon::comm {

namespace {
/// If the buffer for bodies that are not bulk has more bytes than this, it is freed after use.
constexpr size_t kKeptBytes = 64 * 1024;
}  // namespace

std::span<const std::byte> FrameReader::buffered() const {
  return std::span(buffer_).subspan(begin_, end_ - begin_);
}

std::array<std::span<std::byte>, 2> FrameReader::room() {
  // While a body is open, the buffer is empty. Bytes after the body start at the buffer's front.
  const std::span<std::byte> buffer = std::span(buffer_).subspan(end_);
  if (state_ == State::kBody) return {body_.subspan(done_), buffer};
  return {buffer, std::span<std::byte>()};
}

std::string FrameReader::filled(size_t count, FrameSink& sink) {
  std::string error;
  if (state_ == State::kBody) {
    const size_t direct = std::min<uint64_t>(count, header_.length - done_);
    count -= direct;
    error = body_grew(direct, sink);
  }
  end_ += count;
  return error.empty() ? read_buffer(sink) : error;
}

std::string FrameReader::read_buffer(FrameSink& sink) {
  std::string error;
  while (error.empty() && state_ != State::kStopped && !buffered().empty()) {
    if (state_ != State::kHeader)
      error = read_body(sink);
    else if (buffered().size() >= kHeaderBytes)
      error = read_header(sink);
    else
      break;
  }
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return error;
}

std::string FrameReader::read_header(FrameSink& sink) {
  DecodedHeader decoded = decode(buffered().first(kHeaderBytes), *seal_);
  if (!decoded.error.empty()) return decoded.error;
  begin_ += kHeaderBytes;
  header_ = decoded.header;
  std::string refused = sink.announced(header_);
  if (!refused.empty()) return refused;
  done_ = 0;
  open_body(sink);
  return header_.length == 0 ? finish(sink) : "";
}

void FrameReader::open_body(FrameSink& sink) {
  state_ = State::kBody;
  if (!is_bulk(header_.kind)) {
    small_.resize(header_.length);
    body_ = small_;
    return;
  }
  body_ = sink.destination(header_);
  if (body_.size() == header_.length) return;
  check(body_.empty(), "the memory for a body has the length in its header");
  state_ = State::kDropped;
}

std::string FrameReader::read_body(FrameSink& sink) {
  const size_t count = std::min<uint64_t>(buffered().size(), header_.length - done_);
  if (state_ == State::kBody) std::memcpy(body_.data() + done_, buffered().data(), count);
  begin_ += count;
  return body_grew(count, sink);
}

std::string FrameReader::body_grew(size_t count, FrameSink& sink) {
  // Update the seal while the bytes are still in the cache.
  if (state_ == State::kBody) seal_->add(body_.subspan(done_, count));
  done_ += count;
  return done_ == header_.length ? finish(sink) : "";
}

std::string FrameReader::finish(FrameSink& sink) {
  const bool dropped = state_ == State::kDropped;
  state_ = State::kHeader;
  const uint64_t seal = seal_->of_body();
  if (dropped) return "";
  if (seal != header_.body_seal)
    return text("the ", seal_->name(), " of a ", name_of(header_.kind), " frame's body is wrong");
  if (!sink.take(header_, body_)) state_ = State::kStopped;
  body_ = {};
  if (small_.capacity() > kKeptBytes) std::vector<std::byte>().swap(small_);
  return "";
}

size_t FrameReader::missing() const {
  const bool in_body = state_ == State::kBody || state_ == State::kDropped;
  return in_body ? header_.length - done_ : 0;
}

std::string FrameReader::unfinished() const {
  if (state_ == State::kBody || state_ == State::kDropped)
    return "the body of a " + name_of(header_.kind) + " frame";
  if (begins_as_tls(buffered())) return "a TLS alert: the peer uses TLS, this node does not";
  return buffered().empty() ? "" : "the header of a frame";
}

}  // namespace poseidon::comm
