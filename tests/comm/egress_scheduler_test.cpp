#include "comm/wire/egress_scheduler.h"

#include <doctest/doctest.h>

using namespace poseidon::comm;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kFrame = EgressScheduler::kSliceFrame;
constexpr size_t kSlices = EgressScheduler::kCredit / kFrame;
constexpr Time kStart = 5s;

/// An egress scheduler with a clock that the test advances.
struct Link {
  EgressScheduler arbiter;
  Time now = kStart;

  std::optional<EgressScheduler::Sender> next() { return arbiter.next(now); }
  /// The senders that may queue a frame, in order, while nothing drains.
  std::vector<EgressScheduler::Sender> all() {
    std::vector<EgressScheduler::Sender> out;
    while (const auto sender = next()) out.push_back(*sender);
    return out;
  }
  /// Sends slices of one connection. Each slice takes `took`.
  void send(EgressScheduler::Sender sender, int slices, Time took) {
    for (int i = 0; i < slices; ++i) {
      arbiter.want(sender, 1, kFrame);
      REQUIRE(next() == sender);
      now += took;
      arbiter.drained(sender, now);
    }
  }
};

using Senders = std::vector<EgressScheduler::Sender>;

}  // namespace

TEST_CASE("the connection with the most urgent frame sends first, equal ones in request order") {
  Link link;
  const auto a = link.arbiter.add(true), b = link.arbiter.add(true), c = link.arbiter.add(true);
  for (const auto& [sender, priority] : {std::pair{a, 7u}, {b, 3u}, {c, 7u}})
    link.arbiter.want(sender, bulk_priority(priority), 10);
  CHECK(link.all() == Senders{b, a, c});
  // A frame that becomes more urgent moves up. A frame whose priority does not change keeps its
  // position.
  link.arbiter.want(a, bulk_priority(4), 10);
  link.arbiter.want(b, bulk_priority(4), 10);
  link.arbiter.want(c, bulk_priority(5), 10);
  link.arbiter.want(a, bulk_priority(4), 20);
  link.arbiter.want(c, bulk_priority(2), 10);
  CHECK(link.all() == Senders{c, a, b});
}

TEST_CASE("background frames are sent last") {
  Link link;
  const auto checkpoint = link.arbiter.add(true), gradient = link.arbiter.add(true);
  link.arbiter.want(checkpoint, kBackground, 10);
  link.arbiter.want(gradient, bulk_priority(4'000'000), 10);
  CHECK(link.all() == Senders{gradient, checkpoint});
}

TEST_CASE("less urgent frames use the remaining credit") {
  Link link;
  Senders senders;
  for (size_t i = 0; i < kSlices + 2; ++i) senders.push_back(link.arbiter.add(true));
  for (uint32_t i = 0; i < senders.size(); ++i)
    link.arbiter.want(senders[i], bulk_priority(i), kFrame);
  CHECK(link.all() == Senders(senders.begin(), senders.begin() + kSlices));
  link.arbiter.drained(senders[1], link.now);
  CHECK(link.all() == Senders{senders[kSlices]});
  link.arbiter.remove(senders[0]);
  CHECK(link.all() == Senders{senders[kSlices + 1]});
}

TEST_CASE("with equal priorities, each connection sends one slice, even above the credit") {
  Link link;
  Senders senders;
  for (size_t i = 0; i < 2 * kSlices; ++i) senders.push_back(link.arbiter.add(true));
  for (const auto each : senders) link.arbiter.want(each, bulk_priority(3), kFrame);
  CHECK(link.all() == senders);
  for (const auto each : senders) link.arbiter.want(each, bulk_priority(3), kFrame);
  CHECK_FALSE(link.next());  // the second slice of each connection waits for the first
  const auto urgent = link.arbiter.add(true);
  link.arbiter.want(urgent, bulk_priority(1), kFrame);
  CHECK(link.next() == urgent);
  // The waiting frames are now less urgent than the one that is sent.
  link.arbiter.drained(senders[0], link.now);
  CHECK_FALSE(link.next());
  link.arbiter.drained(urgent, link.now);
  CHECK(link.next() == senders[0]);
}

TEST_CASE("one connection may use the whole credit, with frames of any size") {
  Link link;
  const auto a = link.arbiter.add(true);
  uint64_t bytes = 0;
  for (link.arbiter.want(a, 1, 1000); link.next(); link.arbiter.want(a, 1, 1000)) bytes += 1000;
  CHECK(bytes + 1000 > EgressScheduler::kCredit);
  CHECK(bytes <= EgressScheduler::kCredit);
  link.arbiter.drained(a, link.now);
  link.arbiter.want(a, 1, 3 * EgressScheduler::kCredit);
  CHECK(link.next() == a);  // the only frame may be larger than the credit
}

TEST_CASE("a withdrawn or removed connection is not selected") {
  Link link;
  const auto a = link.arbiter.add(true), b = link.arbiter.add(true);
  link.arbiter.want(a, 1, 10);
  link.arbiter.want(b, 2, 10);
  link.arbiter.withdraw(a);
  CHECK(link.all() == Senders{b});
  link.arbiter.want(a, 1, 10);
  link.arbiter.remove(a);
  const auto again = link.arbiter.add(true);
  CHECK(again == a);
  CHECK_FALSE(link.next());
}

TEST_CASE("a stalled receiver holds credit only for a grace period") {
  Link link;
  const auto stalled = link.arbiter.add(true), other = link.arbiter.add(true);
  link.send(other, 20, 10ms);
  link.arbiter.want(stalled, 1, EgressScheduler::kCredit);
  REQUIRE(link.next() == stalled);
  link.arbiter.want(other, 2, kFrame);
  CHECK_FALSE(link.next());
  const auto at = link.arbiter.changes_at(link.now);
  REQUIRE(at);
  CHECK(*at > link.now + kSlices * 15ms);
  CHECK(*at < link.now + kSlices * 25ms);
  link.now = *at;
  CHECK(link.all() == Senders{other});
  link.arbiter.drained(other, link.now += 10ms);

  // When the receiver reads again it gets frames. It counts as fast again only after a frame drains
  // in time.
  link.arbiter.drained(stalled, link.now += 10s);
  link.arbiter.want(stalled, 1, kFrame);
  CHECK(link.next() == stalled);
  link.arbiter.want(other, 2, EgressScheduler::kCredit);
  CHECK(link.next() == other);
  link.arbiter.drained(other, link.now += 10ms);
  link.arbiter.drained(stalled, link.now);
  link.arbiter.want(stalled, 1, kFrame);
  CHECK(link.next() == stalled);
  link.arbiter.want(other, 2, EgressScheduler::kCredit);
  CHECK_FALSE(link.next());
}

TEST_CASE("receivers that share the link do not count as slow, whatever their number") {
  for (const int count : {2, 8, 32}) {
    Link link;
    Senders senders;
    for (int i = 0; i < count; ++i) senders.push_back(link.arbiter.add(true));
    link.send(senders[0], 20, 10ms);
    for (int round = 0; round < 3; ++round) {
      for (const auto each : senders) link.arbiter.want(each, bulk_priority(1), kFrame);
      REQUIRE(link.all() == senders);
      // The connections share the link evenly, so all slices drain at the same time.
      link.now += count * 10ms;
      for (const auto each : senders) link.arbiter.drained(each, link.now);
    }
    // No receiver counts as slow: a less urgent frame still waits.
    for (const auto each : senders) link.arbiter.want(each, bulk_priority(1), kFrame);
    REQUIRE(link.all() == senders);
    const auto background = link.arbiter.add(true);
    link.arbiter.want(background, kBackground, EgressScheduler::kCredit);
    link.now += count * 10ms - 1ms;
    CHECK_FALSE(link.next());
  }
}

TEST_CASE("the grace period follows the rate of the link, also when the rate falls") {
  for (const Time took : {2ms, 300ms}) {
    Link link;
    const auto a = link.arbiter.add(true), b = link.arbiter.add(true);
    link.send(a, 30, 1ms);
    link.send(a, 30, took);
    link.arbiter.want(a, 1, EgressScheduler::kCredit);
    REQUIRE(link.next() == a);
    link.arbiter.want(b, 2, kFrame);
    CHECK_FALSE(link.next());  // the receiver of a is in time
    const Time grace = link.arbiter.changes_at(link.now).value() - link.now;
    CHECK(grace >= std::max<Time>(5ms, std::min<Time>(2s, kSlices * took)));
    CHECK(grace <= std::max<Time>(5ms, kSlices * took * 5 / 2));
  }
}

TEST_CASE("a connection within the host neither uses credit nor waits for it") {
  Link link;
  const auto within = link.arbiter.add(false), beyond = link.arbiter.add(true);
  link.arbiter.want(beyond, 1, EgressScheduler::kCredit);
  REQUIRE(link.next() == beyond);
  link.arbiter.want(beyond, 1, kFrame);
  for (int i = 0; i < 5; ++i) {
    link.arbiter.want(within, 9, kFrame);
    CHECK(link.next() == within);
  }
  CHECK_FALSE(link.next());
  link.arbiter.drained(beyond, link.now);
  CHECK(link.next() == beyond);
}

TEST_CASE("all connections share one rate limit, and the most urgent frames go first") {
  Link link;
  link.arbiter.limit_rate(1e6, link.now);
  const auto a = link.arbiter.add(true), b = link.arbiter.add(false);
  uint64_t sent = 0;
  size_t of_b = 0;
  for (int i = 0; i < 100; ++i) {
    link.arbiter.want(a, 2, 10'000);
    link.arbiter.want(b, 1, 10'000);
    const auto sender = link.next();
    REQUIRE(sender);
    sent += 10'000;
    of_b += sender == b ? 1 : 0;
    link.arbiter.drained(*sender, link.now);
    const auto at = link.arbiter.changes_at(link.now);
    REQUIRE(at);
    CHECK(*at > link.now);
    CHECK_FALSE(link.arbiter.next(*at - 1us));
    link.now = *at;
  }
  CHECK(of_b == 100);
  CHECK(std::chrono::duration<double>(link.now - kStart).count() ==
        doctest::Approx(static_cast<double>(sent) / 1e6).epsilon(0.001));
  // If a part of the credit is used, the next frame still waits only for the rate limit.
  link.arbiter.want(a, 2, 10'000);
  REQUIRE(link.next() == a);
  link.arbiter.want(a, 2, 10'000);
  CHECK(link.arbiter.changes_at(link.now).value() <= link.now + 20ms);
  // When a transport without a limit ends, the link sets the same limit again.
  link.arbiter.limit_rate(1e6, link.now);
  CHECK(link.arbiter.changes_at(link.now).value() > link.now);
  link.arbiter.limit_rate(0, link.now);
  CHECK(link.all() == Senders{a});
  CHECK_FALSE(link.arbiter.changes_at(link.now));
}
