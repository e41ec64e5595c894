// The coordinator's choice of the worker whose in-memory checkpoint it fetches.

#include "trainer/coordinator/checkpoint_offers.h"

#include <doctest/doctest.h>

using namespace poseidon::trainer;

namespace {

CheckpointOfferNote kept(int64_t step) {
  CheckpointOfferNote note;
  note.state.step = step;
  return note;
}

}  // namespace

TEST_CASE("the worker with the latest step is chosen, and among equal steps the lowest rank") {
  CheckpointOffers offers;
  CHECK(offers.choose(0) == nullptr);
  CHECK_FALSE(offers.chosen_worker().has_value());
  offers.add(2, kept(7));
  offers.add(1, kept(9));
  offers.add(3, kept(9));
  REQUIRE(offers.choose(8) != nullptr);
  CHECK(offers.chosen_worker() == 1);
  CHECK(offers.asked_of(1, 9) != nullptr);
  CHECK(offers.asked_of(1, 8) == nullptr);
  CHECK(offers.asked_of(3, 9) == nullptr);
  CHECK(offers.choose(9) == nullptr);
  CHECK_FALSE(offers.chosen_worker().has_value());
}

TEST_CASE("offers follow workers that receive new ranks") {
  CheckpointOffers offers;
  offers.add(0, kept(3));
  offers.add(1, kept(9));
  offers.add(2, kept(7));
  offers.renumber({0, 2});
  CHECK(offers.choose(0) != nullptr);
  CHECK(offers.chosen_worker() == 1);
  CHECK(offers.asked_of(1, 7) != nullptr);
}

TEST_CASE(
    "a worker that fails while its in-memory checkpoint is written keeps other offers valid") {
  CheckpointOffers offers;
  offers.add(0, kept(9));
  offers.add(1, kept(9));
  offers.choose(0);
  offers.forget(0);
  CHECK_FALSE(offers.chosen_worker().has_value());
  offers.fetched(0);  // sent before the worker failed
  CHECK(offers.choose(8) != nullptr);
  CHECK(offers.chosen_worker() == 1);
  offers.fetched(0);
  CHECK_FALSE(offers.chosen_worker().has_value());
  CHECK(offers.choose(8) != nullptr);
}

TEST_CASE("a worker that does not send its in-memory checkpoint is skipped for the next best one") {
  CheckpointOffers offers;
  offers.add(0, kept(9));
  offers.add(1, kept(8));
  REQUIRE(offers.choose(0) != nullptr);
  CHECK(offers.chosen_worker() == 0);
  offers.give_up(0);
  CHECK(offers.is_too_late(0, 9));
  CHECK_FALSE(offers.is_too_late(0, 8));
  CHECK_FALSE(offers.is_too_late(1, 9));
  CHECK(offers.asked_of(0, 9) == nullptr);
  REQUIRE(offers.choose(0) != nullptr);
  CHECK(offers.chosen_worker() == 1);
  offers.has_built(0);
  CHECK_FALSE(offers.is_too_late(0, 9));  // the step may now be a checkpoint of this run
}

TEST_CASE("saved reports follow their worker's rank, survive the fetch, and require an offer") {
  CheckpointOffers offers;
  offers.add_report(0, "of nothing");
  offers.add(2, kept(9));
  offers.add_report(2, "a");
  offers.add_report(2, "b");
  offers.renumber({0, 2});
  offers.choose(0);
  offers.fetched(1);
  REQUIRE(offers.reports().size() == 1);
  CHECK(offers.reports()[0].messages == std::vector<std::string>{"a", "b"});
  offers.forget(1);
  CHECK(offers.reports().empty());
}
