#include <vector>

#include "comm/asio/stream.h"

namespace poseidon::comm {

namespace {

using asio::ip::tcp;

/// A sequence of buffers that lies elsewhere: operations copy it, not what it views.
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
    asio::post(socket_.get_executor(), [done = std::move(done)] { done({}, 0); });
  }

  void read(const Room& room, Moved done) override {
    const std::array<asio::mutable_buffer, 2> buffers{
        asio::mutable_buffer(room[0].data(), room[0].size()),
        asio::mutable_buffer(room[1].data(), room[1].size())};
    socket_.async_read_some(buffers, std::move(done));
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
    socket_.cancel(ignored);
  }

 private:
  tcp::socket socket_;
  std::vector<asio::const_buffer> out_;
};

}  // namespace

std::unique_ptr<Stream> make_plain_stream(tcp::socket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace poseidon::comm
