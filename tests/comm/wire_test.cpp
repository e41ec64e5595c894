#include "comm/wire/wire.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "comm/wire/handshake.h"
#include "core/file.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

using Bytes = std::vector<std::byte>;

/// The bytes of each code block of the page. A line has an offset and up to 16 bytes, in groups.
std::vector<Bytes> blocks_of_page() {
  std::ifstream page(test::source_folder() + "/docs/wire-format.md");
  std::vector<Bytes> blocks;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "```" || line == "```text") {
      inside = !inside;
      if (inside) blocks.emplace_back();
    } else if (inside) {
      std::istringstream words(line);
      std::string offset, group;
      words >> offset;
      REQUIRE(std::stoul(offset, nullptr, 16) == blocks.back().size());
      while (words >> group)
        for (size_t i = 0; i < group.size(); i += 2)
          blocks.back().push_back(
              static_cast<std::byte>(std::stoul(group.substr(i, 2), nullptr, 16)));
    }
  }
  REQUIRE(blocks.size() == 4);
  return blocks;
}

std::span<const std::byte> body_of(const Bytes& frame) {
  return std::span(frame).subspan(kHeaderBytes);
}

FrameHeader decode_whole(const Bytes& frame, FrameSeal& seal) {
  const DecodedHeader decoded = decode(std::span(frame).first(kHeaderBytes), seal);
  seal.add(body_of(frame));
  CHECK(decoded.error == "");
  CHECK(decoded.header.length == frame.size() - kHeaderBytes);
  CHECK(decoded.header.body_seal == seal.of_body());
  return decoded.header;
}

Nonce counting_from(int first) {
  Nonce nonce;
  for (size_t i = 0; i < nonce.size(); ++i)
    nonce[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return nonce;
}

Secret secret_of_page() {
  const auto words = as_bytes("a secret of 27 bytes length");
  return {words.begin(), words.end()};
}

PeerIdentity identity_of_page(Role role, int32_t rank) {
  JobId job;
  job.fill(std::byte{0xaa});
  return {.role = role, .rank = rank, .view = 7, .job = job, .address = ""};
}

Initiator worker_of_page() {
  return {
      secret_of_page(), identity_of_page(Role::kWorker, 2), {Role::kServer, 1}, counting_from(0)};
}

Acceptor server_of_page() {
  return {secret_of_page(), identity_of_page(Role::kServer, 1), counting_from(32)};
}

/// The worker's keys for the frames after the handshake.
SessionKeys keys_of_page() {
  const HandshakeStep step = worker_of_page().challenge(body_of(blocks_of_page()[1]));
  REQUIRE(step.keys);
  return *step.keys;
}

FrameHeader some_header() {
  FrameHeader header;
  header.kind = FrameKind::kContribution;
  header.view = 7;
  header.key = 3;
  header.step = 1000;
  header.chunk = 5;
  header.part = {4, 2};
  header.offset = 262144;
  header.length = 16;
  return header;
}

/// The error of a header with one value overwritten and a valid seal.
template <class Value>
std::string error_with(size_t at, Value value) {
  ChecksumSeal seal;
  auto bytes = encode(some_header(), seal);
  std::memcpy(bytes.data() + at, &value, sizeof value);
  const uint64_t checksum = seal.of_header(std::span(bytes).first(56));
  std::memcpy(bytes.data() + 56, &checksum, sizeof checksum);
  return decode(bytes, seal).error;
}

}  // namespace

TEST_CASE("the contribution frame in docs/wire-format.md decodes and encodes to the same bytes") {
  const Bytes frame = blocks_of_page()[3];
  KeyedSeal came(keys_of_page().sent), sent(keys_of_page().sent);
  const FrameHeader header = decode_whole(frame, came);
  FrameHeader expected = some_header();
  expected.body_seal = header.body_seal;
  CHECK(header == expected);
  std::array<float, 4> numbers{};
  REQUIRE(body_of(frame).size() == sizeof numbers);
  std::memcpy(numbers.data(), body_of(frame).data(), sizeof numbers);
  CHECK(numbers == std::array<float, 4>{1, -2, 0.5, 3});
  sent.add(body_of(frame));
  CHECK(sent.of_body() == header.body_seal);
  const auto encoded = encode(header, sent);
  CHECK(std::equal(encoded.begin(), encoded.end(), frame.begin()));
}

TEST_CASE("both ends send the handshake frames of docs/wire-format.md") {
  const auto blocks = blocks_of_page();
  const Initiator worker = worker_of_page();
  Acceptor server = server_of_page();
  ChecksumSeal seal;
  CHECK(decode_whole(blocks[0], seal).kind == FrameKind::kHello);
  CHECK(decode_whole(blocks[1], seal).kind == FrameKind::kChallenge);
  CHECK(decode_whole(blocks[2], seal).kind == FrameKind::kProof);
  const auto same = [](std::span<const std::byte> said, const Bytes& frame) {
    const auto body = body_of(frame);
    return std::equal(said.begin(), said.end(), body.begin(), body.end());
  };
  CHECK(same(worker.hello(), blocks[0]));
  CHECK(same(server.hello(body_of(blocks[0])).reply, blocks[1]));
  CHECK(same(worker.challenge(body_of(blocks[1])).reply, blocks[2]));
  const HandshakeStep proved = server.proof(body_of(blocks[2]));
  REQUIRE(proved.peer);
  CHECK(proved.peer->rank == 2);
  REQUIRE(proved.keys);
  CHECK(proved.keys->received == keys_of_page().sent);
  CHECK(proved.keys->sent == keys_of_page().received);
}

TEST_CASE("each invalid header field has a specific message") {
  CHECK(error_with(0, 'X') ==
        "expected a frame that begins with \"PSDN\": the peer is not a Poseidon node");
  CHECK(error_with(4, uint16_t{1}) == "expected version 2 of the wire format, got 1");
  CHECK(error_with(6, uint16_t{77}) == "a frame has the unknown kind 77");
  CHECK(error_with(36, uint32_t{kMaxContributionBytes}) == "");
  CHECK(error_with(36, uint32_t{0}) ==
        "a contribution frame announces 0 bytes, expected at least 1");
  CHECK(error_with(36, uint32_t{kMaxContributionBytes + 1}) ==
        "a contribution frame announces 524545 bytes, expected at most 524544");
  CHECK(error_with(36, ~uint32_t{0}) ==
        "a contribution frame announces 4294967295 bytes, expected at most 524544");
}

TEST_CASE("every single-bit error in a header is detected") {
  ChecksumSeal seal;
  const auto good = encode(some_header(), seal);
  CHECK(decode(good, seal).error == "");
  for (size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    CHECK(decode(bytes, seal).error != "");
  }
}

TEST_CASE("every frame kind has a name and a size cap, other numbers have neither") {
  int known = 0;
  for (int kind = 0; kind < 300; ++kind) {
    const auto as_kind = static_cast<FrameKind>(kind);
    const bool named = name_of(as_kind) != "kind " + std::to_string(kind);
    CHECK(named == body_cap(as_kind).has_value());
    known += named;
  }
  CHECK(known == 11);
}
