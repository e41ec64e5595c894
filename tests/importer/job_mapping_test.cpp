#include "importer/job_mapping.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/importer/recording_log.h"
#include "tests/support/error_of.h"
#include "trainer/job/config.h"

namespace poseidon::importer {
namespace {

constexpr const char* kBase = "base_lr: 0.1 lr_policy: 'fixed' max_iter: 100 ";

/// The job for a solver, with or without data layers.
struct Job {
  explicit Job(const std::string& solver_text, const std::string& layers = "")
      : remarks(said, false), solver(parse_text_message(solver_text, "s.prototxt")) {
    JobSources sources{.network_name = "net",
                       .solver = MessageReader(&solver, {"s.prototxt", {}}),
                       .train = std::nullopt,
                       .test = std::nullopt,
                       .mean_image = ""};
    if (!layers.empty()) {
      network = std::make_unique<CaffeNetwork>(layers, "n.prototxt");
      sources.train = read_data_layer(network->layers().at(0), remarks);
      if (network->layers().size() > 1)
        sources.test = read_data_layer(network->layers().at(1), remarks);
      network->top().refuse_unread(remarks);
    }
    json = map_job(sources, remarks);
    sources.solver->refuse_unread(remarks);
    trainer::read_job_config(json, "job.json");
  }

  made::RecordingLog said;
  Remarks remarks;
  TextMessage solver;
  std::unique_ptr<CaffeNetwork> network;
  Json json;
};

std::string optimizer(const std::string& solver) {
  const Job job(kBase + solver);
  return Json(job.json["optimizer"]).dump();
}

std::string schedule(const std::string& solver) {
  const Job job("base_lr: 0.1 max_iter: 100 " + solver);
  return Json(job.json["optimizer"]["schedule"]).dump();
}

std::string fault(const std::string& solver) {
  return error_of<ConfigError>([&] { Job{solver}; });
}

std::string data_layer(const std::string& phase, const std::string& transform) {
  return "layer { name: 'd' type: 'Data' top: 'data' top: 'label' include { phase: " + phase +
         " } transform_param { " + transform +
         " } data_param { source: 'x_lmdb' batch_size: 32 "
         "backend: LMDB } }\n";
}

}  // namespace

TEST_CASE("solvers: each update rule is mapped with Caffe's defaults") {
  CHECK(optimizer("momentum: 0.9 weight_decay: 0.0005") ==
        R"({"type":"sgd","momentum":0.9,"learning_rate":0.1,"weight_decay":0.0005,)"
        R"("schedule":{"type":"fixed"}})");
  CHECK(optimizer("") ==
        R"({"type":"sgd","momentum":0,"learning_rate":0.1,"schedule":{"type":"fixed"}})");
  CHECK(optimizer("type: 'Nesterov' momentum: 0.5 weight_decay: 0.1 regularization_type: 'L1'") ==
        R"({"type":"nesterov","momentum":0.5,"learning_rate":0.1,"l1_decay":0.1,)"
        R"("schedule":{"type":"fixed"}})");
  CHECK(optimizer("solver_type: ADAGRAD") ==
        R"({"type":"adagrad","epsilon":1e-08,"learning_rate":0.1,"schedule":{"type":"fixed"}})");
  CHECK(optimizer("type: 'RMSProp' rms_decay: 0.98 delta: 1e-6") ==
        R"({"type":"rmsprop","smoothing":0.98,"epsilon":1e-06,"learning_rate":0.1,)"
        R"("schedule":{"type":"fixed"}})");
  CHECK(optimizer("type: 'AdaDelta' momentum: 0.95 delta: 1e-6") ==
        R"({"type":"adadelta","smoothing":0.95,"epsilon":1e-06,"learning_rate":0.1,)"
        R"("schedule":{"type":"fixed"}})");
  CHECK(optimizer("type: 'Adam' momentum: 0.9") ==
        R"({"type":"adam","beta1":0.9,"beta2":0.999,"epsilon":1e-08,"learning_rate":0.1,)"
        R"("schedule":{"type":"fixed"}})");
}

TEST_CASE("solvers: each learning rate policy is mapped") {
  CHECK(schedule("lr_policy: 'step' gamma: 0.5 stepsize: 10") ==
        R"({"type":"step","gamma":0.5,"step_size":10})");
  CHECK(schedule("lr_policy: 'multistep' gamma: 0.1 stepvalue: 10 stepvalue: 20") ==
        R"({"type":"multistep","gamma":0.1,"milestones":[10,20]})");
  CHECK(schedule("lr_policy: 'exp' gamma: 0.99") == R"({"type":"exp","gamma":0.99})");
  CHECK(schedule("lr_policy: 'inv' gamma: 0.0001 power: 0.75") ==
        R"({"type":"inv","gamma":0.0001,"power":0.75})");
  CHECK(schedule("lr_policy: 'poly' power: 0.5") == R"({"type":"poly","power":0.5})");
  CHECK(schedule("lr_policy: 'sigmoid' gamma: -0.1 stepsize: 50") ==
        R"({"type":"sigmoid","gamma":-0.1,"step_size":50})");
  const Job other("base_lr: 0.1 max_iter: 100 lr_policy: 'plateau'");
  CHECK(other.json["optimizer"]["schedule"]["type"] == "fixed");
  CHECK(other.said.warnings.back() ==
        "s.prototxt:1:28: expected an \"lr_policy\" of fixed, step, exp, inv, multistep, poly or "
        "sigmoid, got \"plateau\": job.json uses \"fixed\"");
}

TEST_CASE("solvers: iter_size becomes logical shards and divides clip_gradients") {
  const Job job(kBase + std::string("iter_size: 4 clip_gradients: 20 random_seed: 7 display: 0"),
                data_layer("TRAIN", "mirror: true crop_size: 24"));
  CHECK(job.json["data"]["batch_per_worker"] == 128);
  CHECK(job.json["cluster"]["logical_shards"] == 4);
  CHECK(job.json["optimizer"]["clip_norm"] == 5);
  CHECK(Json(job.json["train"]).dump() == R"({"steps":100,"seed":7})");
}

TEST_CASE("data layers: each layer becomes a record set with its transform") {
  const Job job(
      kBase + std::string("test_iter: 10 test_interval: 50"),
      data_layer("TRAIN", "mirror: true crop_size: 24 mean_value: [1, 2, 3] scale: 0.5") +
          data_layer("TEST", "mirror: false crop_size: 24 mean_value: [1, 2, 3] scale: 0.5"));
  CHECK(Json(job.json["data"]).dump() ==
        R"({"train":{"type":"records","path":"data/train","transform":{"crop":24,"mirror":true,)"
        R"("mean":[1,2,3],"scale":0.5}},"test":{"type":"records","path":"data/test"},)"
        R"("batch_per_worker":32})");
  CHECK(job.json["train"]["test_every"] == 50);
  CHECK(job.said.notes ==
        std::vector<std::string>{
            "n.prototxt:1:1: layer \"d\" (Data): job.json expects \"x_lmdb\" as a record set in "
            "data/train",
            "n.prototxt:2:1: layer \"d\" (Data): job.json expects \"x_lmdb\" as a record set in "
            "data/test",
            "s.prototxt:1:47: \"test_iter\" is ignored: each test reads the whole test set"});
  const Job other(kBase, data_layer("TRAIN", "scale: 0.5") + data_layer("TEST", "scale: 0.25"));
  CHECK(other.json["data"]["test"]["transform"]["scale"] == 0.25);
}

TEST_CASE("solvers: missing and wrong fields are reported with their position") {
  CHECK(fault("max_iter: 1 lr_policy: 'fixed'") ==
        "s.prototxt:1:1: a solver needs a \"base_lr\", the learning rate");
  CHECK(fault("base_lr: 1 lr_policy: 'fixed'") ==
        "s.prototxt:1:1: a solver needs a \"max_iter\", the number of steps");
  CHECK(fault("base_lr: 1 max_iter: 1 lr_policy: 'step' gamma: 0.1") ==
        "s.prototxt:1:1: a solver needs a \"stepsize\", required by its \"lr_policy\"");
  CHECK(fault(kBase + std::string("type: 'LARS'"))
            .find("expected a solver of SGD, Nesterov, AdaGrad, RMSProp, AdaDelta or Adam, got "
                  "\"LARS\"") != std::string::npos);
  CHECK(fault(kBase + std::string("regularization_type: 'L3'"))
            .find("expected \"L1\" or \"L2\", got \"L3\"") != std::string::npos);
  CHECK(fault(kBase + std::string("warmup: 3")) ==
        "s.prototxt:1:47: the field \"warmup\" has no equivalent in Poseidon (--skip-unknown "
        "continues without it)");
  const TextMessage solver = parse_text_message("a: 1\ngamma: 2", "s.prototxt");
  CHECK(place_of_key({&solver, {"s.prototxt", {}}}, "/optimizer/schedule/gamma").text() ==
        "s.prototxt:2:1");
}

TEST_CASE("shapes of samples: data layers supply the shape, or the error requests it") {
  const auto shape = [](const std::string& text) {
    made::RecordingLog said;
    Remarks remarks(said, false);
    const CaffeNetwork network(text + "layer { name: 'a' type: 'TanH' bottom: 'data' top: 'a' }",
                               "n.prototxt");
    std::optional<CaffeData> data;
    if (network.layers()[0].is_data_layer()) data = read_data_layer(network.layers()[0], remarks);
    return sample_shape(network, data);
  };
  CHECK(shape("input: 'data' input_shape { dim: [10, 3, 5, 6] } ") == SampleShape{3, 5, 6});
  CHECK(shape("input: 'data' input_dim: [1, 2, 3, 4] ") == SampleShape{2, 3, 4});
  CHECK(shape("layer { name: 'd' type: 'Input' top: 'data' input_param { shape: { dim: [1, 7] } } "
              "} ") == SampleShape{7, 1, 1});
  CHECK(shape("layer { name: 'd' type: 'MemoryData' top: 'data' top: 'label' memory_data_param { "
              "batch_size: 5 channels: 3 height: 8 width: 9 } } ") == SampleShape{3, 8, 9});
  CHECK(shape("layer { name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param { "
              "new_height: 20 new_width: 30 } } ") == SampleShape{3, 20, 30});
  CHECK(shape("layer { name: 'd' type: 'Data' top: 'data' transform_param { crop_size: 24 "
              "mean_value: [1, 2, 3] } } ") == SampleShape{3, 24, 24});
  CHECK(error_of<ConfigError>([&] { shape("layer { name: 'd' type: 'Data' top: 'data' } "); }) ==
        "n.prototxt:1:1: only the data contains the sample shape of layer \"d\" (Data): expected "
        "--input CHANNELSxHEIGHTxWIDTH");
  CHECK(error_of<ConfigError>([&] { shape("input: 'data' input_dim: [1, 2] "); }) ==
        "n.prototxt:1:15: expected four \"input_dim\" for each of 1 inputs, got 2");
}

}  // namespace poseidon::importer
