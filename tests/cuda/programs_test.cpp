// The programs with --device cuda on an emulated GPU.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/cluster.h"

using namespace poseidon;
using namespace poseidon::apps;
using poseidon::trainer::TinyJob;

namespace {

/// The emulated GPU's plans of a convolution.
constexpr const char *kRule = "host", *kOther = "host, with more workspace";

/// Runs the tiny job with these arguments, and returns its summary.
Json train(const TinyJob& job, std::vector<std::string> words) {
  words.insert(words.begin(), "--json");
  if (std::ranges::find(words, "--device") == words.end())
    words.insert(words.begin(), {"--device", "cuda"});
  const Finished finished =
      Program(POSEIDON_EMULATED_PROGRAMS "/poseidon-train", words, job.folder).wait();
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  return Json::parse(finished.out);
}

std::vector<std::string> beginning(const TinyJob& job, const std::string& output,
                                   std::vector<std::string> words = {}) {
  words.insert(words.begin(), {(job.folder / "job.json").string(), "--output",
                               (job.folder / output).string(), "--set", "train.steps=6"});
  return words;
}

/// The choices of the tiny job's convolution. Its input needs no gradient.
Json choices(const std::string& forward, const std::string& backward_weights) {
  return {{"layout", ""},
          {"forward", forward},
          {"backward_data", ""},
          {"backward_weights", backward_weights}};
}

std::string weights(const Json& summary) { return summary["weights_sha256"].get<std::string>(); }

}  // namespace

TEST_CASE("programs on an emulated GPU: a stopped and resumed run has the same bits") {
  const TinyJob job;
  const std::string whole = weights(train(job, beginning(job, "whole")));
  const std::string part = weights(train(job, beginning(job, "part", {"--max-steps", "3"})));
  CHECK(part != whole);
  CHECK(weights(train(job, {"--resume", (job.folder / "part").string()})) == whole);
}

TEST_CASE("programs on an emulated GPU: any number of workers has the same bits") {
  const TinyJob job;
  const std::vector<std::string> shards{"--set", "cluster.logical_shards=4", "--set",
                                        "data.global_batch=16"};
  const auto with = [&](const char* workers, const char* scheme) {
    std::vector<std::string> words = shards;
    words.insert(words.end(),
                 {"--workers", workers, "--set", std::string("comm.scheme=") + scheme});
    return weights(train(job, beginning(job, std::string(scheme) + workers, words)));
  };
  for (const char* scheme : {"ps", "sfb"}) {
    const std::string alone = with("1", scheme);
    CHECK(with("2", scheme) == alone);
    CHECK(with("4", scheme) == alone);
  }
}

TEST_CASE("programs on an emulated GPU: the EMA is tested, saved and resumed") {
  const TinyJob job;
  const std::vector<std::string> words{"--set", "optimizer.average_decay=0.9", "--set",
                                       "train.test_every=2"};
  const auto with = [&](const char* output, std::vector<std::string> more) {
    more.insert(more.end(), words.begin(), words.end());
    return train(job, beginning(job, output, more));
  };
  const Json whole = with("whole", {});
  const Json two = with("two", {"--workers", "2", "--set", "data.global_batch=8", "--set",
                                "cluster.logical_shards=2"});
  const Json alone = with("alone", {"--set", "cluster.logical_shards=2"});
  CHECK(two["state_sha256"] == alone["state_sha256"]);
  CHECK(two["test_loss"] == alone["test_loss"]);
  CHECK(weights(whole) == weights(train(job, beginning(job, "without"))));
  with("part", {"--max-steps", "3"});
  const std::string part = (job.folder / "part").string();
  const Json resumed = train(job, {"--resume", part, "--set", words[1], "--set", words[3]});
  CHECK(resumed["state_sha256"] == whole["state_sha256"]);
  CHECK(resumed["test_loss"] == whole["test_loss"]);
  CHECK(train(job, {"--test", "--resume", part, "--set", words[1]})["loss"] == whole["test_loss"]);
}

TEST_CASE("programs on an emulated GPU: a GPU listed twice is two devices with the same bits") {
  const TinyJob job;
  const auto with = [&](const char* devices, const char* workers) {
    const std::string output = std::string(devices) + "-" + workers;
    return train(job, beginning(job, output,
                                {"--device", devices, "--workers", workers, "--set",
                                 "cluster.logical_shards=4", "--set", "data.global_batch=16",
                                 "--set", "comm.scheme=ps"}));
  };
  const Json one = with("cuda", "1"), two = with("cuda:0,cuda:0", "1");
  CHECK(two["device"] == "cuda:0, cuda:0");
  CHECK(weights(two) == weights(one));
  CHECK(weights(with("cuda:0,cuda", "2")) == weights(one));
  const std::string part = (job.folder / "part").string();
  train(job, beginning(job, "part", {"--max-steps", "3", "--device", "cuda:0,cuda:0"}));
  CHECK(train(job, {"--resume", part})["device"] == "cuda");
}

TEST_CASE("programs on an emulated GPU: every precision trains and is in plan.json") {
  const TinyJob job;
  for (const std::string precision : {"fp32", "tf32", "bf16"}) {
    const Json summary =
        train(job, beginning(job, precision, {"--set", "device.precision=" + precision}));
    CHECK(summary["device"] == "cuda");
    const Json plan = Json::parse(trainer::read_text(job.folder / precision / "plan.json"));
    CHECK(plan["devices"][0]["arithmetic"] ==
          "an emulated GPU, CUDA 13.0, loops of the host, " + precision);
  }
}

TEST_CASE("programs on an emulated GPU: --tune writes choices that a run accepts") {
  const TinyJob job;
  const std::filesystem::path folder = job.folder / "tuned";
  const Json tuned =
      train(job, {(job.folder / "job.json").string(), "--tune", "--output", folder.string()});
  CHECK(tuned == read_json(folder / "choices.json"));
  CHECK(tuned["rule_ms"] > 0);
  const Json& conv = tuned["choices"]["conv"];
  for (const char* pass : {"forward", "backward_weights"}) {
    CAPTURE(pass);
    CHECK((conv[pass] == kRule || conv[pass] == kOther));
  }
  CHECK(conv == choices(conv["forward"], conv["backward_weights"]));
  const std::string set = "device.choices=" + (folder / "choices.json").string();
  CHECK(weights(train(job, beginning(job, "by these", {"--set", set}))) ==
        weights(train(job, beginning(job, "by the rule"))));
}

TEST_CASE("programs on an emulated GPU: a run with other choices has the bits of the fixed rule") {
  const TinyJob job;
  const auto conv_of = [&](const char* output) {
    return Json::parse(trainer::read_text(job.folder / output / "plan.json"))["choices"]["conv"];
  };
  const std::string rule = weights(train(job, beginning(job, "rule")));
  CHECK(conv_of("rule") == choices(kRule, kRule));

  const Json other = choices(kRule, kOther);
  trainer::write_text(job.folder / "other.json", Json{{"conv", other}}.dump());
  const std::string set = "device.choices=" + (job.folder / "other.json").string();
  CHECK(weights(train(job, beginning(job, "other", {"--set", set}))) == rule);
  CHECK(conv_of("other") == other);

  train(job, beginning(job, "part", {"--set", set, "--max-steps", "3"}));
  CHECK(weights(train(job, {"--resume", (job.folder / "part").string()})) == rule);
  CHECK(conv_of("part") == other);
}

TEST_CASE("programs on an emulated GPU: unknown choices are rejected in one line") {
  const TinyJob job;
  const auto refusal = [&](const Json& choice) {
    trainer::write_text(job.folder / "choices.json", Json{{"conv", choice}}.dump());
    const Finished refused =
        Program(POSEIDON_EMULATED_PROGRAMS "/poseidon-train",
                {(job.folder / "job.json").string(), "--device", "cuda", "--set",
                 "device.choices=" + (job.folder / "choices.json").string()},
                job.folder)
            .wait();
    CHECK(refused.code == 2);
    INFO(refused.err);
    CHECK(std::ranges::count(refused.err, '\n') ==
          2);  // the line that describes the job, and the error
    return refused.err;
  };
  CHECK(refusal({{"forward", "eng1_k2=0"}})
            .find("[convolution 'conv'] the plan \"eng1_k2=0\" is chosen, which the host does not "
                  "have") != std::string::npos);
  CHECK(refusal({{"layout", "blocked16"}})
            .find("[convolution 'conv'] the layout \"blocked16\" is chosen, but a GPU has no "
                  "choice of layouts; remove \"layout\" from the choices") != std::string::npos);
}

TEST_CASE("programs on an emulated GPU: an absent GPU is rejected in one line") {
  const TinyJob job;
  const Finished refused =
      Program(POSEIDON_EMULATED_PROGRAMS "/poseidon-train",
              {(job.folder / "job.json").string(), "--device", "cuda:3"}, job.folder)
          .wait();
  CHECK(refused.code == 2);
  CHECK(refused.err.find("this machine has 1 GPU") != std::string::npos);
  CHECK(std::ranges::count(refused.err, '\n') == 1);
}

namespace {

/// Runs a job with two daemons, which end with it: a node with a CPU worker and the server, and a
/// GPU worker.
Json train_mixed(const TinyJob& job, std::vector<std::string> words) {
  const std::string address = free_address();
  trainer::write_text(job.folder / "secret", std::string(32, 's'));
  const std::string secret = (job.folder / "secret").string();
  const auto daemon = [&](const char* device, const char* rank, std::vector<std::string> more) {
    more.insert(more.end(), {"--coordinator", address, "--secret-file", secret, "--device", device,
                             "--rank", rank, "--threads", "1", "--once"});
    const std::filesystem::path folder = job.folder / device;
    std::filesystem::create_directories(folder);
    return Program(POSEIDON_EMULATED_PROGRAMS "/poseidon-worker", more, folder);
  };
  words.insert(words.end(), {"--external", "--listen", address, "--secret-file", secret, "--json"});
  Program coordinator(POSEIDON_EMULATED_PROGRAMS "/poseidon-train", words, job.folder);
  Program cpu = daemon("cpu", "0", {"--server-listen", "127.0.0.1:0"});
  Program gpu = daemon("cuda", "1", {});
  const Finished finished = coordinator.wait();
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(cpu.wait().code == 0);
  CHECK(gpu.wait().code == 0);
  Json summary = Json::parse(finished.out);
  summary["said"] = finished.err;
  return summary;
}

bool said(const Json& summary, const char* words) {
  return summary["said"].get<std::string>().find(words) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "programs on an emulated GPU: a CPU and a GPU worker train one job, and a run resumes it") {
  const TinyJob job;
  const std::vector<std::string> words =
      beginning(job, "mixed",
                {"--set", "cluster.workers=2", "--set", "cluster.servers=1", "--set",
                 "cluster.logical_shards=16", "--set", "data.global_batch=32", "--set",
                 "train.checkpoint_every=1", "--set", "train.steps=12"});
  std::vector<std::string> by_speed = words;
  by_speed.insert(by_speed.end(), {"--set", "cluster.balance=speed", "--max-steps", "8"});
  const Json summary = train_mixed(job, by_speed);
  CHECK(summary["device"] == "cpu and cuda");
  CHECK(summary["steps"] == 8);
  CHECK(said(summary, "logical shards by speed: "));
  const Json plan = Json::parse(trainer::read_text(job.folder / "mixed" / "plan.json"));
  CHECK(plan["devices"][0]["device"] == "cpu");
  CHECK(plan["devices"][1]["device"] == "cuda");
  const Json& workers = plan["assignment"]["workers"];
  CHECK(workers[0]["shards"].get<int64_t>() + workers[1]["shards"].get<int64_t>() == 16);
  for (const Json& layer : plan["layers"]) CHECK(layer["scheme"] == "ps");

  const std::string run = (job.folder / "mixed").string();
  // The two workers keep their shards, although a new measurement could differ.
  const Json again = train_mixed(job, {"--resume", run, "--max-steps", "10"});
  CHECK_FALSE(said(again, "logical shards by speed: "));
  CHECK_FALSE(said(again, "uninterrupted run"));
  CHECK(Json::parse(trainer::read_text(job.folder / "mixed" / "plan.json"))["assignment"] ==
        plan["assignment"]);
  const Finished alone =
      Program(POSEIDON_EMULATED_PROGRAMS "/poseidon-train",
              {"--resume", run, "--workers", "1", "--device", "cuda", "--json"}, job.folder)
          .wait();
  CHECK(alone.code == 0);
  CHECK(alone.err.find(
            "logical shard 0 was computed by cpu until the checkpoint and is now computed by cuda "
            "on worker 0, so the result differs from that of an uninterrupted run") !=
        std::string::npos);
  CHECK(Json::parse(alone.out)["device"] == "cuda");
}

TEST_CASE("programs on an emulated GPU: with even shards, a line suggests balance by speed") {
  const TinyJob job;
  const Json summary =
      train_mixed(job, beginning(job, "even",
                                 {"--set", "cluster.workers=2", "--set", "cluster.servers=1",
                                  "--set", "data.global_batch=48"}));
  CHECK(said(summary,
             "workers differ (cpu and cuda), and each step waits for the slowest: "
             "\"cluster.balance\": \"speed\" assigns logical shards by speed, and "
             "\"cluster.logical_shards\": 16 (now 2) allows a finer balance"));
  CHECK(summary["finished"] == true);
}

TEST_CASE("programs on an emulated GPU: a worker with an absent device exits before it connects") {
  const TinyJob job;
  for (const auto& [device, why] :
       {std::pair{"cuda:3", "device cuda:3: this machine has 1 GPU"},
        {"gpu", "--device gpu: expected cpu, cuda or cuda:INDEX, or a list such as"}}) {
    const Finished refused =
        Program(POSEIDON_EMULATED_PROGRAMS "/poseidon-worker",
                {"--coordinator", "127.0.0.1:1", "--device", device}, job.folder)
            .wait();
    CHECK(refused.code == 2);
    CHECK(refused.err.find(why) != std::string::npos);
  }
}
