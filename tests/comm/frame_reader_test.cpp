#include "comm/wire/frame_reader.h"

#include <doctest/doctest.h>

#include <cstring>

#include "comm/wire/send_queue.h"
#include "core/file.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

using Bytes = std::vector<std::byte>;

Bytes frame(FrameKind kind, const Bytes& body, uint32_t chunk = 0) {
  FrameHeader header;
  header.kind = kind;
  header.chunk = chunk;
  header.length = body.size();
  ChecksumSeal seal;
  seal.add(body);
  header.body_seal = seal.of_body();
  const auto head = encode(header, seal);
  Bytes out(head.size() + body.size());
  std::copy(body.begin(), body.end(), std::copy(head.begin(), head.end(), out.begin()));
  return out;
}

Bytes pattern(size_t count, int seed) {
  Bytes out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::byte>(static_cast<size_t>(seed) + i * 7 + i / 256);
  return out;
}

/// Records all frames. Bulk bodies of chunk 99 are dropped.
class Collector final : public FrameSink {
 public:
  struct Taken {
    FrameKind kind;
    Bytes body;
    bool operator==(const Taken&) const = default;
  };
  std::vector<Taken> taken;
  std::vector<FrameKind> announcements;
  std::string refuse_with;
  size_t stop_after = 1000;

  std::string announced(const FrameHeader& header) override {
    announcements.push_back(header.kind);
    return refuse_with;
  }
  std::span<std::byte> destination(const FrameHeader& header) override {
    if (header.chunk == 99) return {};
    place_.assign(header.length, std::byte{});
    return place_;
  }
  bool take(const FrameHeader& header, std::span<const std::byte> body) override {
    if (is_bulk(header.kind) && !body.empty()) CHECK(body.data() == place_.data());
    taken.push_back({header.kind, {body.begin(), body.end()}});
    return taken.size() < stop_after;
  }

 private:
  Bytes place_;
};

/// Feeds `stream` to the reader in reads of at most `most` bytes. Returns the first error.
std::string feed(FrameReader& reader, Collector& sink, std::span<const std::byte> stream,
                 size_t most) {
  while (!stream.empty() && sink.taken.size() < sink.stop_after) {
    size_t count = 0;
    for (std::span<std::byte> room : reader.room()) {
      const size_t now = std::min(std::min(room.size(), stream.size()), most - count);
      if (now > 0) std::memcpy(room.data(), stream.data(), now);
      stream = stream.subspan(now);
      count += now;
    }
    REQUIRE(count > 0);
    const std::string error = reader.filled(count, sink);
    if (!error.empty()) return error;
  }
  return "";
}

Bytes joined(const std::vector<Bytes>& frames) {
  Bytes all;
  for (const Bytes& one : frames) all.insert(all.end(), one.begin(), one.end());
  return all;
}

}  // namespace

TEST_CASE("frames do not depend on how the stream is split into reads") {
  const Bytes large = pattern(20000, 1), small = pattern(100, 2), text = pattern(9000, 3);
  const Bytes stream =
      joined({frame(FrameKind::kHeartbeat, {}), frame(FrameKind::kContribution, large),
              frame(FrameKind::kControl, text), frame(FrameKind::kSum, large, 99),
              frame(FrameKind::kSum, small), frame(FrameKind::kFactor, pattern(4096, 4)),
              frame(FrameKind::kHeartbeat, {})});
  const std::vector<Collector::Taken> expected{{FrameKind::kHeartbeat, {}},
                                               {FrameKind::kContribution, large},
                                               {FrameKind::kControl, text},
                                               {FrameKind::kSum, small},
                                               {FrameKind::kFactor, pattern(4096, 4)},
                                               {FrameKind::kHeartbeat, {}}};
  for (size_t most : {1, 3, 63, 64, 65, 1000, 4096, 5000, 100000}) {
    CAPTURE(most);
    FrameReader reader;
    Collector sink;
    CHECK(feed(reader, sink, stream, most) == "");
    CHECK(sink.taken == expected);
    CHECK(reader.unfinished() == "");
  }
}

TEST_CASE("a frame with a modified body is rejected") {
  for (FrameKind kind : {FrameKind::kControl, FrameKind::kContribution}) {
    Bytes stream = frame(kind, pattern(5000, 1));
    stream.back() ^= std::byte{1};
    FrameReader reader;
    Collector sink;
    CHECK(feed(reader, sink, stream, 777) ==
          "the checksum of a " + name_of(kind) + " frame's body is wrong");
    CHECK(sink.taken.empty());
  }
}

TEST_CASE("a length above the cap is rejected before memory is requested") {
  FrameHeader header;
  header.kind = FrameKind::kControl;
  header.length = (uint64_t{16} << 20) + 1;
  ChecksumSeal seal;
  const auto head = encode(header, seal);
  FrameReader reader;
  Collector sink;
  CHECK(feed(reader, sink, head, 64) ==
        "a control frame announces 16777217 bytes, expected at most 16777216");
  CHECK(sink.announcements.empty());
  CHECK(reader.room()[1].empty());  // the reader expects no body
}

TEST_CASE("a bulk frame without a body is rejected, whatever its destination") {
  for (FrameKind kind : {FrameKind::kContribution, FrameKind::kSum, FrameKind::kFactor,
                         FrameKind::kTensor, FrameKind::kProbe})
    for (uint32_t chunk : {0u, ~0u}) {
      FrameReader reader;
      Collector sink;
      CHECK(feed(reader, sink, frame(kind, {}, chunk), 64) ==
            "a " + name_of(kind) + " frame announces 0 bytes, expected at least 1");
      CHECK(sink.announcements.empty());
      CHECK(sink.taken.empty());
    }
}

TEST_CASE("a sink can reject a frame at its header, or stop the reader") {
  FrameReader reader;
  Collector sink;
  sink.refuse_with = "not now";
  CHECK(feed(reader, sink, frame(FrameKind::kControl, pattern(10, 1)), 64) == "not now");
  CHECK(sink.taken.empty());

  FrameReader other;
  Collector stopping;
  stopping.stop_after = 2;
  const Bytes beat = frame(FrameKind::kHeartbeat, {});
  CHECK(feed(other, stopping, joined({beat, beat, beat, beat}), 4096) == "");
  CHECK(stopping.taken.size() == 2);
}

TEST_CASE("the reader reports where a truncated stream ends") {
  const Bytes stream = frame(FrameKind::kSum, pattern(300, 1));
  const auto after = [&](size_t count) {
    FrameReader reader;
    Collector sink;
    CHECK(feed(reader, sink, std::span(stream).first(count), 64) == "");
    return reader.unfinished();
  };
  CHECK(after(1) == "the header of a frame");
  CHECK(after(63) == "the header of a frame");
  CHECK(after(64) == "the body of a sum frame");
  CHECK(after(363) == "the body of a sum frame");
  CHECK(after(364) == "");
}

TEST_CASE("the most urgent frame leaves the queue first, equal ones in order of arrival") {
  SendQueue queue;
  const auto push = [&](uint32_t chunk, Priority priority) {
    FrameHeader header;
    header.chunk = chunk;
    queue.push({.header = header, .payload = {}}, priority);
  };
  push(1, bulk_priority(5));
  push(2, bulk_priority(2));
  push(3, bulk_priority(5));
  push(4, kUrgent);
  push(5, bulk_priority(2));
  push(6, kUrgent);
  std::vector<uint32_t> order;
  for (; !queue.empty(); order.push_back(queue.pop().header.chunk))
    if (order.size() == 1) CHECK(queue.first_priority() == kUrgent);
  CHECK(order == std::vector<uint32_t>{4, 6, 2, 5, 1, 3});

  push(1, bulk_priority(0));
  push(2, kUrgent);
  queue.keep_urgent();
  CHECK(queue.pop().header.chunk == 2);
  CHECK(queue.empty());
}

TEST_CASE("a reader decodes a batch that is written in parts") {
  const Bytes first = pattern(1000, 1), second = pattern(70000, 2);
  SendBatch batch;
  ChecksumSeal seal;
  FrameHeader header;
  header.kind = FrameKind::kSum;
  batch.add({.header = header, .payload = {.bytes = first, .owner = {}}}, seal);
  CHECK_FALSE(batch.full());
  batch.add({.header = header, .payload = {.bytes = second, .owner = {}}}, seal);
  CHECK(batch.full());
  Bytes stream;
  while (!batch.done()) {
    // Writes a part of the batch that spans several segments.
    size_t wanted = 999, count = 0;
    for (const auto& piece : batch.pieces()) {
      const size_t now = std::min(piece.size(), wanted - count);
      stream.insert(stream.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(now));
      count += now;
    }
    batch.advance(count);
  }
  FrameReader reader;
  Collector sink;
  CHECK(feed(reader, sink, stream, 4000) == "");
  CHECK(sink.taken ==
        std::vector<Collector::Taken>{{FrameKind::kSum, first}, {FrameKind::kSum, second}});
}

TEST_CASE("a batch copies unsent borrowed bodies and releases sent ones") {
  Bytes memory = pattern(100, 1);
  const auto owned = std::make_shared<Bytes>(pattern(100, 2));
  SendBatch batch;
  ChecksumSeal seal;
  FrameHeader header;
  header.kind = FrameKind::kSum;
  batch.add({.header = header, .payload = {.bytes = memory, .owner = {}}}, seal);
  batch.add({.header = header, .payload = {.bytes = *owned, .owner = owned}}, seal);
  CHECK(owned.use_count() == 2);
  batch.advance(kHeaderBytes + 10);
  batch.keep_bodies();
  CHECK(owned.use_count() == 2);
  memory.assign(100, std::byte{0});  // the owner may change its memory now
  const Bytes expected = pattern(100, 1);
  const auto rest = batch.pieces()[0];
  CHECK(std::equal(rest.begin(), rest.end(), expected.begin() + 10, expected.end()));
  batch.advance(90 + kHeaderBytes + 100);
  CHECK(batch.done());
  CHECK(owned.use_count() == 1);
}
