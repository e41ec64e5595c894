#include "trainer/job/data_root.h"

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// A data root with a data set in it, and a folder outside of it that must not be accessible.
class Jail {
 public:
  Jail() {
    for (const char* folder : {"root/mnist", "root/classes/cat", "outside/sets"})
      fs::create_directories(job.folder / folder);
    write_text(job.folder / "outside/sets/secret", "secret");
    write_text(job.folder / "root/mnist/images", "images");
  }
  std::string folder(const std::string& inner) const {
    return fs::canonical(job.folder / inner).string();
  }
  /// "" if the path is refused.
  std::string resolved(const std::string& path) const {
    try {
      return root().resolve(path).string();
    } catch (const ConfigError&) {
      return "";
    }
  }
  std::string refusal(const std::string& path) const {
    return error_of<ConfigError>([&] { root().resolve(path); });
  }
  void link(const std::string& name, const fs::path& target) const {
    fs::create_symlink(target, job.folder / "root" / name);
  }
  DataRoot root() const { return DataRoot(job.folder / "root"); }

  const TinyJob job;
};

}  // namespace

TEST_CASE(
    "paths of a job may be relative to the data root, start with its variable, or be absolute") {
  const Jail jail;
  const std::string mnist = jail.folder("root/mnist");
  for (const std::string& path :
       {std::string("mnist"), std::string("./mnist/"), std::string("${POSEIDON_DATA}/mnist"),
        std::string("${POSEIDON_DATA}//mnist"), mnist, (jail.job.folder / "root/mnist").string()}) {
    CAPTURE(path);
    CHECK(jail.resolved(path) == mnist);
  }
  CHECK(jail.resolved("${POSEIDON_DATA}") == jail.folder("root"));
  CHECK(jail.resolved("mnist/images") == mnist + "/images");
  CHECK(DataRoot(jail.folder("root") + "/").resolve("mnist") == mnist);
  CHECK(DataRoot("/").resolve(mnist) == mnist);
}

TEST_CASE("no path of a job may lead out of the data root") {
  const Jail jail;
  jail.link("absolute", jail.job.folder / "outside");
  jail.link("relative", "../outside");
  jail.link("dangling", jail.job.folder / "outside/nothing");
  jail.link("circle", "circle");
  for (const std::string& path :
       {jail.folder("outside/sets"), std::string("/"), std::string("/etc/passwd"),
        std::string("../outside/sets"), std::string("mnist/../../outside"),
        std::string("${POSEIDON_DATA}/../outside"), std::string("absolute"),
        std::string("absolute/sets"), std::string("relative/sets"), std::string("dangling"),
        std::string("circle"), std::string("nothing"), jail.folder("root") + "/../outside",
        jail.folder("root") + "-beside", std::string("mnist/") + std::string(5000, 'x')}) {
    CAPTURE(path);
    const std::string why = jail.refusal(path);
    // All refusals have the same message: it must not reveal whether the path exists.
    CHECK(why == "\"" + path +
                     "\" does not exist under this node's data root (\"..\", absolute paths and "
                     "symbolic links may not lead out of it)");
  }
}

TEST_CASE("symbolic links in a data set may lead only into its data root") {
  const Jail jail;
  jail.link("classes/cat/inside", jail.job.folder / "root/mnist/images");
  CHECK(jail.resolved("classes") == jail.folder("root/classes"));
  jail.link("classes/cat/outside", jail.job.folder / "outside/sets/secret");
  CHECK(jail.resolved("classes") == "");
  CHECK(DataRoot("/").resolve(jail.folder("root/classes")) == jail.folder("root/classes"));
}

TEST_CASE("a job from another node cannot read environment variables") {
  const Jail jail;
  for (const char* path : {"${HOME}/mnist", "mnist/${HOME}", "${POSEIDON_DATA}${HOME}",
                           "${POSEIDON_DATA}x/mnist", "${"}) {
    CAPTURE(path);
    CHECK(jail.refusal(path) ==
          "\"" + std::string(path) +
              "\" cannot be opened: expected no variable except ${POSEIDON_DATA}, this node's data "
              "root, at the start, because the job came from another node");
  }
}

TEST_CASE("without a data root no file is opened") {
  const Jail jail;
  CHECK(error_of<ConfigError>([&] { DataRoot().resolve(jail.folder("root/mnist")); }) ==
        "\"" + jail.folder("root/mnist") +
            "\" cannot be opened: this node has no data root and accepts only jobs with generated "
            "data (start it with --data-root, or with POSEIDON_DATA set)");
}
