#include "trainer/job/config.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/job/known_data.h"
#include "trainer/job/overrides.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// The tiny job with --set arguments.
JobConfig job_with(const std::vector<std::string>& words) {
  Json json = parse_json(kTinyJob, "job.json");
  apply_overrides(json, words, "/where");
  const JobConfig config = read_job_config(json, "job.json");
  refuse_unsupported(config, "job.json");
  return config;
}

std::string refusal(const std::vector<std::string>& words) {
  return error_of<ConfigError>([&] { job_with(words); });
}

}  // namespace

TEST_CASE("a job without optional keys has the defaults") {
  const JobConfig config = job_with({});
  CHECK(config.name == "tiny");
  CHECK(config.data.batch_per_worker == 8);
  CHECK(config.global_batch() == 8);
  CHECK(config.logical_shards() == 1);
  CHECK(config.optimizer.momentum == 0.9);
  CHECK(config.train.log_every == 2);
  CHECK(config.data.has_test);
  CHECK_FALSE(config.data.test.shuffle);
}

TEST_CASE("--set accepts JSON, or else a string; null removes the key") {
  CHECK(job_with({"optimizer.learning_rate=0.5"}).optimizer.learning_rate == 0.5);
  CHECK(job_with({"name=other name"}).name == "other name");
  CHECK(job_with({"name=\"7\""}).name == "7");
  CHECK(job_with({"optimizer.momentum=null"}).optimizer.momentum == 0.9);
  CHECK_FALSE(job_with({"data.test=null"}).data.has_test);
  CHECK(job_with({"optimizer.schedule=null"}).optimizer.schedule.type == "fixed");
  CHECK(job_with({"optimizer.schedule={\"type\": \"exp\", \"gamma\": 0.5}"})
            .optimizer.schedule.gamma == 0.5);
  CHECK(job_with({"cluster.logical_shards=4"}).shard_batch() == 2);
}

TEST_CASE("--set of one of two exclusive keys removes the other key") {
  const JobConfig batch = job_with({"data.global_batch=16"});
  CHECK(batch.data.batch_per_worker == 0);
  CHECK(batch.global_batch() == 16);
  const JobConfig epochs = job_with({"train.epochs=2.5"});
  CHECK(epochs.train.steps == 0);
  CHECK(epochs.train.epochs == 2.5);
}

TEST_CASE("--set of another type drops the keys that only the old type has") {
  Json json = parse_json(kTinyJob, "job.json");
  const std::vector<std::string> words{"optimizer.type=adam", "optimizer.beta1=0.8",
                                       "data.train.type=digits"};
  CHECK(apply_overrides(json, words, "/where") ==
        std::vector<std::string>{"optimizer.momentum", "data.train.channels", "data.train.classes",
                                 "data.train.height", "data.train.width"});
  CHECK(read_job_config(json, "job.json").optimizer.beta1 == 0.8);
  // Keys that the user sets are never dropped.
  CHECK(refusal({"optimizer.type=adam", "optimizer.momentum=0.5"})
            .starts_with("job.json: /optimizer/momentum: unknown key"));
}

TEST_CASE("relative paths of --set start at the current folder") {
  CHECK(job_with({"network=nets/a.json"}).network == "/where/nets/a.json");
  CHECK(job_with({"network=/nets/a.json"}).network == "/nets/a.json");
  CHECK(job_with({"data.train.type=mnist", "data.train.path=${DATA}/mnist"}).data.train.path ==
        "${DATA}/mnist");
}

TEST_CASE("--set arguments that cannot be applied are refused") {
  CHECK(refusal({"momentum"}) ==
        "--set momentum: expected PATH=VALUE, as in optimizer.momentum=0.9");
  CHECK(refusal({"a..b=1"}) == "--set a..b=1: a key is empty");
  CHECK(refusal({"name.first=1"}) == "--set name.first=1: name is \"tiny\", which has no keys");
}

TEST_CASE("errors in values of --set name the argument and suggest the intended path") {
  const TinyJob job;
  const auto refused = [&](const std::string& argument) {
    return error_of<ConfigError>([&] { job.load({"train.seed=4", argument}); });
  };
  CHECK(refused("lr=0.1") ==
        "--set lr=0.1: the job has no such key; did you mean optimizer.learning_rate?");
  CHECK(refused("steps=3") == "--set steps=3: the job has no such key; did you mean train.steps?");
  CHECK(refused("train.batch_size=3") ==
        "--set train.batch_size=3: the job has no such key; did you mean data.global_batch?");
  CHECK(refused("optimiser.momentum=0").ends_with("did you mean optimizer.momentum?"));
  CHECK(refused("zzz=1") == "--set zzz=1: the job has no such key");
  CHECK(refused("train.steps=many") ==
        "--set train.steps=many: expected an integer in [1, 1000000000000], got \"many\"");
  CHECK(refused("optimizer={\"lr\": 1}") ==
        "--set optimizer={\"lr\": 1}: did you mean \"learning_rate\", which is missing?");
  CHECK(refused("network=/no/network.json") ==
        "--set network=/no/network.json: the network file \"/no/network.json\" does not exist");
  CHECK(refused("train/steps=3") ==
        "--set train/steps=3: expected dots between keys, as in optimizer.momentum=0.9");
  // This key has a flag too, but --set checks its range in the same way.
  CHECK(refused("device.threads=-1").find("/device/threads: expected an integer in [0, 1024]") !=
        std::string::npos);
  // An error in the file is reported with the path of the file, not with --set.
  CHECK(refused("optimizer.momentum=null") == "");
  write_text(job.folder / "job.json", "{\"lrate\": 1}");
  CHECK(refused("name=x").starts_with((job.folder / "job.json").string() + ": /"));
}

TEST_CASE("comments and notes do not change a job") {
  const TinyJob plain, noted;
  const auto with_notes = [](std::string text) {
    text.replace(text.find('{'), 1, "{\n  // why\n  \"$schema\": \"s.json\", \"_why\": [1, 2],\n");
    const size_t inner = text.find("{", text.find("{") + 1);
    return text.replace(inner, 1, "{\"_comment\": \"here\", /* and here */ ");
  };
  write_text(noted.folder / "job.json", with_notes(kTinyJob));
  write_text(noted.folder / "tiny_network.json", with_notes(kTinyNetwork));
  const Job one = plain.load(), other = noted.load();
  CHECK(config_hash(one.result_settings_json()) == config_hash(other.result_settings_json()));
  CHECK(one.network->json() == other.network->json());
  noted.run("run", {"train.steps=1"});
  for (const char* file : {"run/config.json", "run/network.json"}) {
    const std::string written = read_text(noted.folder / file);
    CHECK(written.find("$schema") == std::string::npos);
    CHECK(written.find("\"_") == std::string::npos);
  }
}

TEST_CASE("errors name file, JSON path, expected and got") {
  CHECK(refusal({"optimizer.learing_rate=1"}) ==
        "job.json: /optimizer/learing_rate: unknown key; did you mean \"learning_rate\"?");
  CHECK(refusal({"train.steps=0"}) ==
        "job.json: /train/steps: expected an integer in [1, "
        "1000000000000], got 0");
  CHECK(refusal({"train.seed=one"}) ==
        "job.json: /train/seed: expected an integer >= 0, got \"one\"");
  CHECK(refusal({"train.steps=null"}) ==
        "job.json: /train: expected exactly one of \"steps\" and \"epochs\", got neither");
  CHECK(refusal({"data={\"train\": {\"type\": \"digits\"}, \"batch_per_worker\": 1, "
                 "\"global_batch\": 1}"}) ==
        "job.json: /data: expected exactly one of \"batch_per_worker\" and \"global_batch\", got "
        "both");
  CHECK(refusal({"optimizer.type=sdg"}).ends_with("got \"sdg\"; did you mean \"sgd\"?"));
  CHECK(refusal({"cluster.logical_shards=3"}) ==
        "job.json: /data: expected a global batch divisible by \"cluster.logical_shards\" (3), got "
        "8 samples");
  CHECK(refusal({"cluster.workers=4", "cluster.logical_shards=2"}) ==
        "job.json: /cluster/logical_shards: expected at least \"workers\" (4), got 2");
  CHECK(refusal({"cluster.workers=2", "cluster.logical_shards=2", "device.indices=[0,0]"}) ==
        "job.json: /cluster/logical_shards: expected at least \"workers\" times the devices per "
        "worker (2 x 2), got 2");
  CHECK(refusal({"device.indices=[]"}) ==
        "job.json: /device/indices: expected at least one device, got none");
  CHECK(refusal({"device.indices=[0,1]"}) ==
        "job.json: /device/indices: expected 0 for each device, because a machine has one \"cpu\", "
        "got 1");
  CHECK(refusal({"cluster.timeout_s=0.1"})
            .starts_with(
                "job.json: /cluster/timeout_s: expected a number in [0.5, 1000000], got 0.1"));
  CHECK(refusal({"comm.chunk_bytes=16777217"}) ==
        "job.json: /comm/chunk_bytes: expected an integer in [65536, 16777216], got 16777217");
  CHECK(refusal({"comm.congestion_control=vegas"}) ==
        "job.json: /comm/congestion_control: expected one of \"auto\", \"system\", \"bbr\", "
        "\"cubic\", \"reno\", got \"vegas\"");
  CHECK(refusal({"name=a/b"}) == "job.json: /name: expected a name without \"/\", got \"a/b\"");
}

TEST_CASE("staleness is refused together with overlap \"barrier\"") {
  CHECK(refusal({"comm.staleness=2"}) == "");
  CHECK(refusal({"comm.staleness=2", "comm.overlap=barrier"}) ==
        "job.json: /comm/overlap: expected \"priority\" with \"staleness\" 2, got \"barrier\", "
        "which waits for all sums of a step");
  CHECK(refusal({"comm.staleness=1025"}).starts_with("job.json: /comm/staleness: expected"));
}

TEST_CASE("a precision that the device does not support is refused, not ignored") {
  CHECK(refusal({"device.type=cuda", "device.precision=tf32"}) == "");
  CHECK(refusal({"device.precision=tf32"}) ==
        "job.json: /device/precision: expected \"fp32\" or \"bf16\" for \"cpu\", got \"tf32\", "
        "which only \"cuda\" has");
}

TEST_CASE("devices have the names of --device, and divide the threads") {
  const auto names = [&](const std::vector<std::string>& words) {
    return job_with(words).device.names();
  };
  CHECK(names({}) == "cpu");
  CHECK(names({"device.indices=[0,0]"}) == "cpu, cpu");
  CHECK(names({"device.type=cuda"}) == "cuda");
  CHECK(names({"device.type=cuda", "device.indices=[1]"}) == "cuda:1");
  CHECK(names({"device.type=cuda", "device.indices=[0,2]"}) == "cuda:0, cuda:2");
  CHECK(job_with({"device.threads=7", "device.indices=[0,0]"}).device.threads_of_each() == 3);
  CHECK(job_with({"device.threads=1", "device.indices=[0,0]"}).device.threads_of_each() == 1);
  CHECK(job_with({"device.threads=7"}).device.threads_of_each() == 7);
}

TEST_CASE("a resolved job has the same settings as the original") {
  const JobConfig config = job_with({"optimizer.type=adam", "train.epochs=2"});
  const Json json = resolved(config);
  CHECK_FALSE(json["train"].contains("steps"));
  CHECK_FALSE(json["data"].contains("global_batch"));
  CHECK(resolved(read_job_config(json, "config.json")) == json);
}

TEST_CASE("the config hash leaves out paths, threads and name") {
  const Json network = parse_json(kTinyNetwork, "network.json");
  const auto hash = [&](const std::vector<std::string>& words) {
    return config_hash(result_settings(job_with(words), network));
  };
  const std::string first = hash({});
  CHECK(hash({"name=other"}) == first);
  CHECK(hash({"device.threads=7"}) == first);
  CHECK(hash({"cluster.logical_shards=4"}) ==
        hash({"cluster.logical_shards=4", "device.indices=[0,0,0]"}));
  CHECK(hash({"device.type=cuda"}) == hash({"device.type=cuda", "device.indices=[3]"}));
  CHECK(hash({"network=/elsewhere.json"}) == first);
  CHECK(hash({"data.loader_threads=2"}) == first);
  CHECK(hash({"device.graphs=false"}) == first);
  for (const char* travel :
       {"cluster.servers=3", "cluster.servers_apart=true", "cluster.timeout_s=3",
        "cluster.stall_timeout_s=9", "comm.overlap=none", "comm.chunk_bytes=65536",
        "comm.bandwidth_limit_mbps=100", "comm.link_mbps=100", "comm.congestion_control=bbr"})
    CHECK(hash({travel}) == first);
  CHECK(hash({"train.seed=8"}) != first);
  CHECK(hash({"optimizer.momentum=0.8"}) != first);
  CHECK(hash({"comm.wire=bf16"}) != first);
  CHECK(config_hash(result_settings(job_with({}), Json::object())) != first);
}

TEST_CASE("the config hash covers global batch and logical shards, not the number of workers") {
  const auto hash = [&](const std::vector<std::string>& words) {
    return config_hash(result_settings(job_with(words), Json::object()));
  };
  const std::string four =
      hash({"data.global_batch=24", "cluster.workers=4", "cluster.logical_shards=4"});
  CHECK(hash({"data.global_batch=24", "cluster.workers=2", "cluster.logical_shards=4"}) == four);
  CHECK(hash({"data.batch_per_worker=6", "cluster.workers=4"}) == four);
  CHECK(hash({"data.global_batch=24", "cluster.workers=2"}) != four);
}

TEST_CASE("a job is loaded with its network; missing files and variables are refused") {
  const TinyJob job;
  CHECK(job.load().network->name() == "tiny");
  CHECK(error_of<ConfigError>([&] { job.load({"network=/no/such.json"}); }) ==
        "--set network=/no/such.json: the network file \"/no/such.json\" does not exist");
  CHECK(error_of<ConfigError>([&] {
          job.load({"data.train.type=mnist", "data.train.path=/no/mnist"});
        }) == "--set data.train.path=/no/mnist: \"/no/mnist\" does not exist");
  CHECK(error_of<ConfigError>([&] {
          job.load({"data.train.type=mnist", "data.train.path=${D}/mnist"});
        }) == "--set data.train.path=${D}/mnist: \"${D}/mnist\": the variable D is not set");
  Json json = read_json(job.folder / "job.json");
  json["network"] = "/no/such.json";
  write_text(job.folder / "job.json", json.dump());
  CHECK(error_of<ConfigError>([&] { job.load(); }) ==
        (job.folder / "job.json").string() +
            ": /network: the network file \"/no/such.json\" does not exist");
}

TEST_CASE("data that do not match the network are refused") {
  const TinyJob job;
  const auto refused = [&](std::vector<std::string> overrides) {
    SilentLog log;
    return error_of<ConfigError>(
        [&] { open_data(job.load(std::move(overrides)), DataPart::kTrain, log); });
  };
  const std::string place = (job.folder / "job.json").string() + ": /data/train: ";
  CHECK(refused({"data.train.classes=4"})
            .ends_with("has 4 classes (0, 1, 2, 3), but network \"tiny\" has only 3"));
  CHECK(refused({"data.train.height=7"})
            .starts_with(place + "for the input 2x6x6 of network \"tiny\": "));
}

TEST_CASE("class names that differ only in Unicode normalization are refused, with that reason") {
  const auto refused = [](const std::string& got) {
    return error_of<ConfigError>([&] {
      refuse_other_classes({"j.json", "/data/test"}, "set", {"caf\u00E9"}, {got});
    });
  };
  const std::string told = "which differs only in Unicode normalization";
  CHECK(refused("cafe\u0301").find(told) != std::string::npos);
  CHECK(refused("cafe").find(told) == std::string::npos);
}

TEST_CASE("a run refuses a first sample that is smaller than the crop, also with skip") {
  const TinyJob job(
      R"({"name": "grey", "input": {"channels": 1, "height": 6, "width": 6}, "layers": [
      {"name": "ip", "type": "linear", "outputs": 2}, {"name": "loss", "type": "softmax_loss"}]})");
  const auto write_set = [&](const std::string& set, int side) {
    for (const char* image : {"cat/1.pgm", "cat/2.pgm", "dog/1.pgm"}) {
      const fs::path file = job.folder / set / image;
      const int width = std::string_view(image) == "cat/1.pgm" ? side : 6;
      fs::create_directories(file.parent_path());
      write_text(file, text("P5\n", width, " 6\n255\n", std::string(width * 6UL, '.')));
    }
  };
  const auto refused = [&](int train, int test) {
    write_set("train", train);
    write_set("test", test);
    Json json = read_json(job.folder / "job.json");
    for (const char* set : {"train", "test"})
      json["data"][set] = {{"type", "images"},
                           {"path", (job.folder / set).string()},
                           {"on_error", "skip"},
                           {"transform", {{"crop", 6}}}};
    write_text(job.folder / "job.json", json.dump());
    SilentLog log;
    const std::string checked = error_of<ConfigError>([&] { inspect_data(job.load(), log); });
    CHECK(error_of<ConfigError>([&] { job.run("run"); }) == checked);
    CHECK(fs::exists(job.folder / "run") == checked.empty());
    return checked;
  };
  const std::string file = (job.folder / "job.json").string();
  CHECK(refused(4, 6).starts_with(file + ": /data/train: " + (job.folder / "train").string()));
  CHECK(refused(6, 4).find(": the transform's crop of 6x6 does not fit the image of 6x4; ") !=
        std::string::npos);
  CHECK(refused(6, 6) == "");
}

TEST_CASE("a test set with other classes than the training set is refused") {
  const TinyJob job(
      R"({"name": "grey", "input": {"channels": 1, "height": 6, "width": 6}, "layers": [
      {"name": "ip", "type": "linear", "outputs": 3}, {"name": "loss", "type": "softmax_loss"}]})");
  for (const char* image : {"train/cat/1.pgm", "train/dog/1.pgm", "train/emu/1.pgm",
                            "test/ape/1.pgm", "test/cat/1.pgm", "test/dog/1.pgm"}) {
    fs::create_directories((job.folder / image).parent_path());
    write_text(job.folder / image, "P5\n6 6\n255\n" + std::string(36, '.'));
  }
  const auto refused = [&](const std::string& test) {
    Json json = read_json(job.folder / "job.json");
    json["data"]["train"] = {{"type", "images"}, {"path", (job.folder / "train").string()}};
    json["data"]["test"] = {{"type", "images"}, {"path", (job.folder / test).string()}};
    write_text(job.folder / "job.json", json.dump());
    SilentLog log;
    return error_of<ConfigError>([&] { inspect_data(job.load(), log); });
  };
  const std::string place = (job.folder / "job.json").string() + ": /data/test: ";
  CHECK(refused("train") == "");
  CHECK(
      refused("test") ==
      place + (job.folder / "test").string() +
          ": expected the 3 classes of the training set, got 3 classes; label 0 is \"cat\" in the "
          "training set and \"ape\" here (--classes-from packs a set with another set's labels)");
  fs::rename(job.folder / "test/ape", job.folder / "test/emu");
  CHECK(refused("test") == "");
  fs::remove_all(job.folder / "test/emu");
  CHECK(refused("test").find(
            "got 2 classes; label 2 is \"emu\" in the training set and no class here") !=
        std::string::npos);
}
