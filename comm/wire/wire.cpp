#include "comm/wire/wire.h"

#include <bit>
#include <cstring>

#include "core/error.h"

static_assert(std::endian::native == std::endian::little,
              "frames are little-endian, and so are the hosts this was written for");

namespace poseidon::comm {

namespace {

constexpr std::array<char, 4> kMagic{'P', 'S', 'D', 'N'};
constexpr size_t kSealAt = kHeaderBytes - sizeof(uint64_t);

/// Writer and Reader encode and decode the fields of a header one after another, in the order of
/// docs/wire-format.md.
class Writer {
 public:
  explicit Writer(std::byte* next) : next_(next) {}
  template <class Integer>
  void operator()(const Integer& value) {
    std::memcpy(next_, &value, sizeof value);
    next_ += sizeof value;
  }

 private:
  std::byte* next_;
};

class Reader {
 public:
  explicit Reader(const std::byte* next) : next_(next) {}
  template <class Integer>
  void operator()(Integer& value) {
    std::memcpy(&value, next_, sizeof value);
    next_ += sizeof value;
  }

 private:
  const std::byte* next_;
};

template <class Visit, class Header>
void visit_fields(Visit& visit, Header& header) {
  visit(header.kind);
  visit(header.view);
  visit(header.key);
  visit(header.step);
  visit(header.chunk);
  visit(header.part.first);
  visit(header.part.count);
}

template <class Visit, class Header>
void visit_body(Visit& visit, Header& header) {
  visit(header.offset);
  visit(header.body_seal);
}

}  // namespace

std::optional<uint64_t> body_cap(FrameKind kind) {
  switch (kind) {
    case FrameKind::kHello:
    case FrameKind::kChallenge:
    case FrameKind::kProof:
    case FrameKind::kRefusal: return 1024;
    case FrameKind::kControl: return kMaxControlBytes;
    case FrameKind::kHeartbeat: return 0;
    case FrameKind::kContribution: return kMaxContributionBytes;
    case FrameKind::kSum:
    case FrameKind::kFactor:
    case FrameKind::kTensor:
    case FrameKind::kProbe: return kSliceBytes;
  }
  return std::nullopt;
}

std::string name_of(FrameKind kind) {
  switch (kind) {
    case FrameKind::kHello: return "hello";
    case FrameKind::kChallenge: return "challenge";
    case FrameKind::kProof: return "proof";
    case FrameKind::kRefusal: return "refusal";
    case FrameKind::kControl: return "control";
    case FrameKind::kHeartbeat: return "heartbeat";
    case FrameKind::kContribution: return "contribution";
    case FrameKind::kSum: return "sum";
    case FrameKind::kFactor: return "factor";
    case FrameKind::kTensor: return "tensor";
    case FrameKind::kProbe: return "probe";
  }
  return text("kind ", static_cast<uint16_t>(kind));
}

std::array<std::byte, kHeaderBytes> encode(const FrameHeader& header, FrameSeal& seal) {
  std::array<std::byte, kHeaderBytes> bytes{};
  Writer writer(bytes.data());
  writer(kMagic);
  writer(kWireVersion);
  visit_fields(writer, header);
  check(header.length <= UINT32_MAX, "a frame's length has 32 bits");
  writer(static_cast<uint32_t>(header.length));
  visit_body(writer, header);
  writer(seal.of_header(std::span(bytes).first(kSealAt)));
  return bytes;
}

bool begins_as_tls(std::span<const std::byte> bytes) {
  constexpr std::byte kAlert{21}, kGreeting{22}, kVersion{3};
  return bytes.size() >= 2 && (bytes[0] == kAlert || bytes[0] == kGreeting) && bytes[1] == kVersion;
}

DecodedHeader decode(std::span<const std::byte> bytes, FrameSeal& seal) {
  check(bytes.size() == kHeaderBytes, "only a complete header can be decoded");
  std::array<char, 4> magic{};
  uint16_t version = 0;
  uint32_t length = 0;
  uint64_t sealed = 0;
  DecodedHeader out;
  Reader reader(bytes.data());
  reader(magic);
  reader(version);
  visit_fields(reader, out.header);
  reader(length);
  out.header.length = length;
  visit_body(reader, out.header);
  reader(sealed);
  const std::optional<uint64_t> cap = body_cap(out.header.kind);
  if (begins_as_tls(bytes))
    out.error = "the peer uses TLS, this node does not";
  else if (magic != kMagic)
    out.error = "expected a frame that begins with \"PSDN\": the peer is not a Poseidon node";
  else if (version != kWireVersion)
    out.error = text("expected version ", kWireVersion, " of the wire format, got ", version);
  else if (sealed != seal.of_header(bytes.first(kSealAt)))
    out.error = text("the ", seal.name(), " of a frame's header is wrong");
  else if (!cap)
    out.error = "a frame has the unknown " + name_of(out.header.kind);
  else if (out.header.length > *cap)
    out.error = text("a ", name_of(out.header.kind), " frame announces ", out.header.length,
                     " bytes, expected at most ", *cap);
  else if (is_bulk(out.header.kind) && out.header.length == 0)
    out.error =
        text("a ", name_of(out.header.kind), " frame announces 0 bytes, expected at least 1");
  return out;
}

}  // namespace poseidon::comm
