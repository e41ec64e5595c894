#include <algorithm>
#include <vector>

#include "comm/asio/stream.h"
#include "comm/wire/wire.h"

namespace poseidon::comm {

namespace {

using asio::ip::tcp;

/// A read waits for the expected bytes, but at most for this many. A wake-up for each packet of a
/// slice would cost more than the read itself. Machine::heard() is delayed by the same wait.
constexpr size_t kWorthWaking = kSliceBytes;

/// A view of a sequence of buffers that is stored elsewhere: operations copy the view, not the
/// sequence.
template <class Buffer>
struct BufferView {
  using value_type = Buffer;
  using const_iterator = const Buffer*;
  const Buffer *first, *last;
  const_iterator begin() const { return first; }
  const_iterator end() const { return last; }
};

class PlainStream final : public Stream {
 public:
  explicit PlainStream(tcp::socket socket) : socket_(std::move(socket)) {}

  tcp::socket& socket() override { return socket_; }

  void open(bool, Moved done) override {
    std::error_code gone;  // ignored: the first read reports the error
    socket_.non_blocking(true, gone);
    asio::post(socket_.get_executor(), [done = std::move(done)] { done({}, 0); });
  }

  void expect(size_t bytes) override {
    const int wake_at = static_cast<int>(std::clamp<size_t>(bytes, 1, kWorthWaking));
    if (wake_at == wake_at_) return;
    wake_at_ = wake_at;
    std::error_code ignored;  // without the option, reads are only smaller
    socket_.set_option(tcp::socket::receive_low_watermark(wake_at), ignored);
  }

  /// Waits first, because an immediate read would return the few bytes that have arrived,
  /// regardless of expect().
  void read(const Room& room, Moved done) override {
    socket_.async_wait(tcp::socket::wait_read, [this, room, at = releases_, done = std::move(done)](
                                                   const std::error_code& no_wait) mutable {
      if (no_wait) return done(no_wait, 0);
      if (at != releases_) return done(asio::error::operation_aborted, 0);
      const std::array<asio::mutable_buffer, 2> buffers{
          asio::mutable_buffer(room[0].data(), room[0].size()),
          asio::mutable_buffer(room[1].data(), room[1].size())};
      std::error_code error;
      const size_t count = socket_.read_some(buffers, error);
      if (error == asio::error::would_block) return read(room, std::move(done));
      done(error, count);
    });
  }

  void write(Pieces pieces, Moved done) override {
    out_.clear();
    for (const auto& piece : pieces) out_.emplace_back(piece.data(), piece.size());
    const asio::const_buffer* first = out_.data();
    socket_.async_write_some(BufferView<asio::const_buffer>{first, first + out_.size()},
                             std::move(done));
  }

  void release() override {
    std::error_code ignored;
    ++releases_;
    socket_.cancel(ignored);
  }

 private:
  tcp::socket socket_;
  int wake_at_ = 1;
  uint64_t releases_ = 0;
  std::vector<asio::const_buffer> out_;
};

}  // namespace

std::unique_ptr<Stream> make_plain_stream(tcp::socket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace poseidon::comm
