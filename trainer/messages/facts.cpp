#include "trainer/messages/facts.h"

#include <charconv>

#include "comm/wire/wire.h"
#include "core/error.h"

namespace poseidon::trainer {

std::string build_identity() {
  return text("poseidon ", POSEIDON_VERSION, ", wire format ", comm::kWireVersion, ", compiler ",
              __VERSION__);
}

namespace {
constexpr const char* kTrainingSamples = "the number of training samples";
}  // namespace

/// Only the first difference between workers is reported. Numbers of samples explain more than
/// fingerprints, so they come first.
std::vector<comm::Fact> facts_of(const Job& job, const PreparedData& train,
                                 const PreparedData& test) {
  std::vector<comm::Fact> facts{{"the hash of the job", config_hash(job.result_settings_json())},
                                {kTrainingSamples, std::to_string(train.dataset->size())},
                                {"the training set", train.dataset->fingerprint()}};
  if (test.dataset == nullptr) return facts;
  facts.push_back({"the number of test samples", std::to_string(test.dataset->size())});
  facts.push_back({"the test set", test.dataset->fingerprint()});
  return facts;
}

std::string fact(const std::vector<comm::Fact>& facts, const std::string& name) {
  for (const comm::Fact& each : facts)
    if (each.name == name) return each.value;
  return "";
}

int64_t training_samples(const std::vector<comm::Fact>& facts) {
  const std::string samples_text = fact(facts, kTrainingSamples);
  int64_t samples = 0;
  const auto [end, failure] =
      std::from_chars(samples_text.data(), samples_text.data() + samples_text.size(), samples);
  if (failure != std::errc{} || end != samples_text.data() + samples_text.size() || samples < 1)
    throw ConfigError(text("the workers reported ", shown(samples_text), " as ", kTrainingSamples,
                           ", expected an integer >= 1"));
  return samples;
}

}  // namespace poseidon::trainer
