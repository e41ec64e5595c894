// If a run by one worker fails, its last complete step is a checkpoint. The error names that
// checkpoint and the command that continues. Also tests warnings at the start of a run about
// classes and disk space.

#include <doctest/doctest.h>

#include <fstream>

#include "tests/trainer/tiny_job.h"
#include "trainer/state/checkpoint.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// A job on 3 classes with 8 gray images of 6 x 6 pixels each, and batches of 2.
class ImageJob {
 public:
  ImageJob() {
    write_text(job.folder / "tiny_network.json",
               R"({"name": "gray", "input": {"channels": 1, "height": 6, "width": 6}, "layers": [
                   {"name": "ip", "type": "linear", "outputs": 3,
                    "weight_filler": {"type": "xavier"}},
                   {"name": "loss", "type": "softmax_loss"}]})");
    write_text(job.folder / "job.json",
               R"({"name": "gray", "network": "tiny_network.json",
                   "data": {"train": {"type": "images", "path": "train"}, "batch_per_worker": 2,
                            "loader_threads": 1},
                   "optimizer": {"type": "sgd", "learning_rate": 0.001, "momentum": 0.9},
                   "train": {"steps": 12, "seed": 3, "log_every": 2},
                   "device": {"threads": 1}})");
    for (int number = 0; number < 24; ++number) write_image(image(number), number);
  }

  fs::path image(int number) const {
    return job.folder / "train" / text("class-", number % 3) / text("image-", number / 3, ".pgm");
  }
  static void write_image(const fs::path& file, int number) {
    std::string pixels;
    for (int i = 0; i < 36; ++i) pixels += static_cast<char>((number * 31 + i * 7) % 251);
    fs::create_directories(file.parent_path());
    write_text(file, "P5\n6 6\n255\n" + pixels);
  }

  const TinyJob job;
};

/// The last step with an intact checkpoint; -1 if there is none.
int64_t saved_step(const fs::path& run) {
  int64_t last = -1;
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "checkpoints"))
    if (entry.path().extension() == ".state")
      last = std::max(last, Checkpoint(entry.path()).state().step);
  return last;
}

/// Checks that the error ends with the checkpoint of the last complete step and the command that
/// continues.
void check_tells_of_last_step(const std::string& error, const fs::path& run, int64_t step) {
  CAPTURE(error);
  CHECK(step > 0);
  CHECK(error.ends_with(text("; the last checkpoint is ", run.string(), "/checkpoints/step-", step,
                             ".safetensors; to resume: poseidon-train --resume ", run.string())));
  const Json summary = Json::parse(read_text(run / "summary.json"));
  CHECK(summary["steps"] == step);
  CHECK(summary["finished"] == false);
  CHECK(error.starts_with(summary["failure"].get<std::string>()));
}

}  // namespace

TEST_CASE("a damaged sample ends a run, and its last complete step is saved") {
  const ImageJob images;
  const std::string whole = images.job.run("whole")["state_sha256"];
  // Each sample is used once in 12 steps, so some of these samples are used after the first step.
  int64_t in_the_middle = 0;
  for (const int bad : {1, 8, 14, 20}) {
    const std::string good = read_text(images.image(bad));
    write_text(images.image(bad), good.substr(0, 20));
    const std::string name = "run-" + std::to_string(bad);
    const std::string error = error_of<RunError>([&] { images.job.run(name); });
    CHECK(error.find(images.image(bad).filename().string()) != std::string::npos);
    write_text(images.image(bad), good);
    const fs::path run = images.job.folder / name;
    if (!fs::exists(run)) continue;  // failed in the first step
    ++in_the_middle;
    check_tells_of_last_step(error, run, saved_step(run));
    CHECK(images.job.run("", {}, {.resume = run})["state_sha256"] == whole);
  }
  CHECK(in_the_middle >= 2);
}

TEST_CASE("an image that is removed or too small during a run is not reported as a user error") {
  const ImageJob images;
  std::string text_of_small = "P5\n2 2\n255\nabcd";
  int64_t in_the_middle = 0;
  for (const int bad : {8, 14, 20})
    for (const bool vanishes : {true, false}) {
      const std::string good = read_text(images.image(bad));
      const std::string name = text("run-", bad, vanishes ? "-gone" : "-small");
      // The image existed when the set was opened, and was removed later.
      fs::remove(images.image(bad));
      if (vanishes)
        fs::create_symlink("nowhere", images.image(bad));
      else
        write_text(images.image(bad), text_of_small);
      try {
        images.job.run(name);
      } catch (const RunError& error) {
        const fs::path run = images.job.folder / name;
        if (fs::exists(run)) {
          ++in_the_middle;
          check_tells_of_last_step(error.what(), run, saved_step(run));
        }
      } catch (const ConfigError&) {
        CHECK_FALSE(fs::exists(images.job.folder / name));  // found before the first step
      }
      fs::remove(images.image(bad));
      write_text(images.image(bad), good);
    }
  CHECK(in_the_middle >= 1);
}

TEST_CASE("a loss that is not finite ends a run, and its last complete step is saved") {
  const TinyJob job;
  const std::string error = error_of<RunError>([&] {
    job.run("run", {"optimizer.learning_rate=1e15", "optimizer.schedule=null",
                    "optimizer.weight_decay=0", "optimizer.momentum=0"});
  });
  CAPTURE(error);
  CHECK(error.find("the loss is ") != std::string::npos);
  check_tells_of_last_step(error, job.folder / "run", saved_step(job.folder / "run"));
}

TEST_CASE("two devices: if one fails, the last step that both completed is saved") {
  const ImageJob images;
  const std::vector<std::string> two{"device.indices=[0, 0]"};
  const std::string whole = images.job.run("whole", two)["state_sha256"];
  int64_t in_the_middle = 0;
  for (const int bad : {1, 8, 14, 20}) {
    const std::string good = read_text(images.image(bad));
    write_text(images.image(bad), good.substr(0, 20));
    const std::string name = "run-" + std::to_string(bad);
    const std::string error = error_of<RunError>([&] { images.job.run(name, two); });
    write_text(images.image(bad), good);
    const fs::path run = images.job.folder / name;
    if (!fs::exists(run)) continue;
    ++in_the_middle;
    check_tells_of_last_step(error, run, saved_step(run));
    CHECK(images.job.run("", {}, {.resume = run})["state_sha256"] == whole);
  }
  CHECK(in_the_middle >= 2);
}

TEST_CASE("a damaged test sample ends the run, and the tested step is saved") {
  const ImageJob images;
  ImageJob::write_image(images.job.folder / "test/class-0/a.pgm", 1);
  ImageJob::write_image(images.job.folder / "test/class-1/a.pgm", 2);
  ImageJob::write_image(images.job.folder / "test/class-2/a.pgm", 3);
  write_text(images.job.folder / "test/class-2/b.pgm", "P5\n6 6\n255\nshort");
  const std::string error = error_of<RunError>([&] {
    images.job.run("run", {"data.test={\"type\": \"images\", \"path\": \"" +
                               (images.job.folder / "test").string() + "\"}",
                           "train.test_every=4"});
  });
  check_tells_of_last_step(error, images.job.folder / "run", 4);
}

TEST_CASE("a class that changed since the checkpoint is refused and named") {
  const ImageJob images;
  images.job.run("run", {}, {.max_steps = 4});
  const fs::path run = images.job.folder / "run";
  const std::string classes = read_text(run / "classes.json");
  fs::rename(images.job.folder / "train/class-2", images.job.folder / "train/class-01");
  CHECK(error_of<ConfigError>([&] { images.job.run("", {}, {.resume = run}); }) ==
        "--resume " + run.string() +
            ": label 1 is \"class-1\" in the run and \"class-01\" now; expected the classes of "
            "the run (to train for other classes, begin another run with --weights)");
  CHECK(read_text(run / "classes.json") == classes);
  const fs::path weights = run / "checkpoints/step-4.safetensors";
  const std::string refused = error_of<ConfigError>(
      [&] { images.job.run("fine", {}, {.weights = weights, .max_steps = 5}); });
  CHECK(refused.starts_with("--weights " + weights.string() +
                            ": label 1 is \"class-1\" in the run and \"class-01\" now, and the "
                            "output layer fits"));
  CHECK_FALSE(fs::exists(images.job.folder / "fine"));
}

TEST_CASE(
    "weights for other classes are loaded except the layer that does not fit, with a message") {
  const ImageJob images;
  std::string network = read_text(images.job.folder / "tiny_network.json");
  network.insert(network.find("{\"name\": \"ip\""),
                 R"({"name": "first", "type": "linear", "outputs": 4},)");
  write_text(images.job.folder / "tiny_network.json", network);
  images.job.run("run", {}, {.max_steps = 4});
  fs::remove_all(images.job.folder / "train/class-2");
  network.replace(network.find("\"outputs\": 3"), 12, "\"outputs\": 2");
  write_text(images.job.folder / "tiny_network.json", network);
  CHECK_NOTHROW(images.job.run(
      "fine", {},
      {.weights = images.job.folder / "run/checkpoints/step-4.safetensors", .max_steps = 2}));
  CHECK(read_text(images.job.folder / "fine/console.log")
            .find("label 2 is \"class-2\" in the run and no class now; layers that do not fit") !=
        std::string::npos);
}
